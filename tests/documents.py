"""The code blocks of README and docs, their kinds, and the commands in them."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from markdown_it import MarkdownIt

from tidelock.model.api.crds import CUSTOM_RESOURCES, GROUP, VERSION

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
)

_BASES: Mapping[str, Mapping[str, Any]] = {
    "Reservation": {"resources": {"cpu": "1"}, "owners": [{"pod": {"name": "web-0"}}], "ttlSeconds": 600},
    "ReservationGroup": {
        "members": [{"name": "a", "resources": {"cpu": "1"}, "owners": [{"pod": {"name": "web-0"}}]}],
        "ttlSeconds": 600,
    },
    "ReservationSchedule": {
        "schedule": "@daily",
        "durationSeconds": 600,
        "template": {"spec": {"resources": {"cpu": "1"}, "owners": [{"pod": {"name": "web-0"}}]}},
    },
    "ReservationQuota": {"maxPriority": 0},
    "ReservationQuote": {"resources": {"cpu": "1"}},
    "WaterLevel": {"source": {"metricsServer": {}}},
}
_INSTEAD = {"template": "resources", "expireAt": "ttlSeconds"}
_PROFILE = {"schedulerName", "plugins", "pluginConfig"}
_BETWEEN = frozenset({"&&", "||", "|", ";", "&"})
_PROMPT = "$ "
# Commands in sentences. A subcommand of the plugin without arguments is often only mentioned.
_INLINE = re.compile(r"(\w+=\S+ )*(make|pytest|python -m|tidelock (run|simulate)|kubectl tidelock \w+ \S)")


@dataclass(frozen=True)
class Block:
    """A fenced block: its place, the language after its fence, and the name of the file that it shows.

    The section is the title of the last heading of the second level, or empty before the first one.
    """

    page: Path
    section: str
    line: int
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        """Return the place, such as `docs/quotas.md:7`."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def documents(self) -> list[Any]:
        """The YAML documents of the block."""
        return list(yaml.safe_load_all(self.text))


class Kind(StrEnum):
    """The kind of a block of YAML."""

    CONFIGURATION = "KubeSchedulerConfiguration"
    PROFILE = "part of a profile of one"
    OBJECTS = "objects, or a part of the spec of one of Tidelock's"
    PATCH = "patch of an object in manifests"
    KUSTOMIZATION = "Kustomization"
    VALUES = "values of the Helm chart"


@dataclass(frozen=True)
class Command:
    """One program with its arguments, and its output if the page shows it."""

    block: Block
    line: int
    words: tuple[str, ...]
    typed: str
    printed: str = ""

    def __str__(self) -> str:
        """Return the place and the program."""
        return f"{self.block.page.relative_to(ROOT)}:{self.line} {' '.join(self.words[:3])}"


@cache
def blocks() -> tuple[Block, ...]:
    """Return all code blocks of all pages."""
    return tuple(block for page in PAGES for block in page_blocks(page))


def page_blocks(page: Path) -> Iterator[Block]:
    """Yield the code blocks of one page. An indented block, which has no fence, has no language."""
    section, before = "", None
    for token in MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8")):
        if before is not None and before.type == "heading_open" and before.tag == "h2":
            section = token.content
        before = token
        if token.type in {"fence", "code_block"}:
            assert token.map is not None
            language, *attributes = shlex.split(token.info) or [""]
            named = dict(each.split("=", 1) for each in attributes)
            yield Block(page, section, token.map[0] + 1, language, named.pop("title", ""), token.content)
            assert not named, f"{page}:{token.map[0] + 1}: unknown attributes {named}"


def page_block(page: Path, title: str) -> Block:
    """Return the block of a page that shows the file of this name."""
    (found,) = (block for block in page_blocks(page) if block.title == title)
    return found


def sentences(page: Path) -> Iterator[Block]:
    """Yield the commands in the sentences and tables of a page, each as a block of `sh`."""
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8")):
        for child in token.children or ():
            if child.type == "code_inline" and _INLINE.match(child.content):
                assert token.map is not None
                yield Block(page, "", token.map[0], "sh", "", child.content)


def kind_of(block: Block) -> Kind:
    """Return the kind of a block of YAML. Exactly one fits."""
    documents = block.documents
    if block.title.startswith("patch-") and isinstance(documents[0], list):
        return Kind.PATCH
    kinds = {document.get("kind") for document in documents}
    patch = block.title.startswith("patch-")
    values = block.title == "values.yaml"
    found = {
        Kind.PATCH: patch,
        Kind.VALUES: values,
        Kind.CONFIGURATION: kinds == {Kind.CONFIGURATION},
        Kind.KUSTOMIZATION: kinds == {Kind.KUSTOMIZATION},
        Kind.PROFILE: len(documents) == 1 and set(documents[0]) <= _PROFILE,
        Kind.OBJECTS: not (patch or values or kinds & {Kind.CONFIGURATION, Kind.KUSTOMIZATION})
        and (None not in kinds or len(_wholes(block)) == 1),
    }
    fitting = [kind for kind, fits in found.items() if fits]
    assert len(fitting) == 1, f"{block}: this is no YAML that anything checks, or of several kinds: {fitting}"
    return fitting[0]


def objects(block: Block) -> list[dict[str, Any]]:
    """Return the objects of a block. A part of a spec is completed to a whole object."""
    return block.documents if "kind" in block.documents[0] else _wholes(block)


def _wholes(block: Block) -> list[dict[str, Any]]:
    """Return one whole object for each kind with a spec that may contain the block."""
    if len(block.documents) != 1:
        return []
    (part,) = block.documents
    absent = {_INSTEAD.get(field) for field in part}
    return [
        {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": resource.kind,
            "metadata": {"name": "part"},
            "spec": {key: value for key, value in base.items() if key not in absent} | part,
        }
        for resource in CUSTOM_RESOURCES
        for base in (_BASES[resource.kind],)
        if set(part) <= {field.alias or name for name, field in resource.spec.model_fields.items()}
    ]


def commands(block: Block) -> Iterator[Command]:
    """Yield the commands of a block of `sh`, or those after the prompts of a `console`."""
    shown = _sessions(block) if block.language == "console" else _script(block)
    for line, typed, printed in shown:
        for words in _programs(typed):
            yield Command(block, line, words, typed, printed)


def _script(block: Block) -> Iterator[tuple[int, str, str]]:
    whole = ""
    for line, text in enumerate(block.text.splitlines(), start=block.line + 1):
        whole += text.removesuffix("\\")
        if not text.endswith("\\"):
            yield line, whole, ""
            whole = ""


def _sessions(block: Block) -> Iterator[tuple[int, str, str]]:
    """Yield the input after each prompt of a console, and the output that follows it."""
    typed, start, printed = "", 0, list[str]()
    for line, text in enumerate(block.text.splitlines(), start=block.line + 1):
        if text.startswith(_PROMPT):
            if typed:
                yield start, typed, "\n".join(printed)
            typed, start, printed = text.removeprefix(_PROMPT), line, []
        else:
            printed.append(text)
    assert typed, f"{block}: a console without a prompt"
    yield start, typed, "\n".join(printed)


def _programs(typed: str) -> Iterator[tuple[str, ...]]:
    """Split a shell command into its programs, without comments, redirections and variables."""
    lexer = shlex.shlex(typed, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    skip = False
    for token in [*lexer, ";"]:
        if token in _BETWEEN:
            while words and "=" in words[0].partition("/")[0]:
                words.pop(0)
            if words:
                yield tuple(words)
            words = []
        elif skip or token in {">", ">>", "&>", "<"}:
            skip = not skip
        else:
            words.append(token)
