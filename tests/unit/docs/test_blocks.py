"""Every code block of README and docs is of one kind, and is checked by that kind."""

import importlib
import json
import os
import re
import sys
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from functools import partial
from io import IOBase
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer.main

from documents import PAGES, ROOT, Block, Command, Kind, blocks, commands, kind_of, objects, sentences
from replayed import reason
from tidelock import main as tidelock
from tidelock.cli.app import make_app
from tidelock.framework.config import read_configuration
from tidelock.framework.installed import load_plugins
from tidelock.model.api.crds import CUSTOM_RESOURCES, GROUP, VERSION
from tidelock.plugins.registry import BUILTINS

# The beginnings of commands and manifests, which belong into a checked block.
_CHECKED_ELSEWHERE = re.compile(
    r"^(\$ |(kubectl|make|tidelock|python|pytest|pip|docker|helm|kustomize|curl) |(kind|apiVersion): )",
    re.MULTILINE,
)
_EXAMPLES = ROOT / "docs" / "examples"


class ParsedError(Exception):
    """Ends a program once its command line has been read."""


# ---------------------------------------------------------------------------------------------- YAML


def configuration(text: str) -> None:
    read_configuration(text, BUILTINS, partial(load_plugins, builtin=BUILTINS.registry))


def check_yaml(block: Block) -> None:
    """Check a YAML block by its kind. tests/cluster/test_docs.py sends objects to an API server."""
    match kind_of(block):
        case Kind.CONFIGURATION if "SpareCores" in block.text:
            check_excerpt(block)  # The plugins of this example are not installed here.
        case Kind.CONFIGURATION:
            configuration(block.text)
        case Kind.PROFILE:
            (part,) = block.documents
            profiles = [{"schedulerName": "tidelock-scheduler", **part}]
            head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
            configuration(json.dumps({**head, "profiles": profiles}))
        case Kind.OBJECTS:
            specs = {resource.kind: resource.spec for resource in CUSTOM_RESOURCES}
            for each in objects(block):
                if each["kind"] in specs:
                    specs[each["kind"]].model_validate(each["spec"])
                    jsonschema.validate(each, schema_of(each["kind"]))
        case Kind.KUSTOMIZATION:
            assert block.title == "kustomization.yaml", "its commands find it by that name"
        case Kind.VALUES:
            schema = json.loads((ROOT / "manifests" / "chart" / "values.schema.json").read_text())
            jsonschema.validate(block.documents[0], schema)
        case Kind.PATCH:
            (document, *_) = block.documents
            steps = document if isinstance(document, list) else []
            assert all(step["op"] == "add" and step["path"].endswith("/args/-") for step in steps)
            assert steps or all({"apiVersion", "kind", "metadata"} <= set(each) for each in block.documents)


def check_json(document: dict[str, Any]) -> None:
    """Check an object of Tidelock by its schema. Any other document only has to be JSON."""
    if document.get("apiVersion") == f"{GROUP}/{VERSION}":
        jsonschema.validate(document, schema_of(document["kind"]))


def schema_of(kind: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind, for tools without a cluster."""
    schema: dict[str, Any] = json.loads(
        (ROOT / "schemas" / GROUP / f"{kind.lower()}_{VERSION}.json").read_text()
    )
    return schema


# ------------------------------------------------------------------------------------------ programs


def check_make(words: tuple[str, ...]) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for word in words if "=" not in word}  # others set variables
    assert named
    assert named <= targets, f"the Makefile has no {named - targets}"


def check_python(words: tuple[str, ...]) -> None:
    """Let a module of hack/ or tests/, or a script of docs/, read its command line."""
    program, *arguments = words[1:] if words[0] == "-m" else words
    if words[0] == "-m":
        is_package = any((ROOT / folder / program).is_dir() for folder in ("hack", "tests"))
        module = importlib.import_module(f"{program}.__main__" if is_package else program)
    else:
        assert (ROOT / program).is_file(), f"there is no {program}"
        module = importlib.import_module(Path(program).stem)
    if "ArgumentParser" not in Path(str(module.__file__)).read_text():
        assert not [each for each in arguments if each.startswith("-")], f"{program} takes no options"
        return
    sys.argv = [program, *arguments]
    with pytest.raises(ParsedError):
        module.main(*([arguments] if module.main.__annotations__.get("arguments") else []))


def check_tidelock(words: tuple[str, ...]) -> None:
    with pytest.raises(ParsedError):
        tidelock.main(words)


def check_kubectl(words: tuple[str, ...]) -> None:
    """Parse the plugin's command lines. tests/cluster/test_docs.py runs the others."""
    if words[0] != "tidelock":
        return
    group = typer.main.get_command(make_app())
    assert isinstance(group, typer.core.TyperGroup)
    context = group.make_context("kubectl tidelock", list(words[1:]))
    name, command, arguments = group.resolve_command(context, context._protected_args + context.args)
    assert command is not None
    command.make_context(name, arguments, parent=context)


def check_pytest(words: tuple[str, ...]) -> None:
    missing = [each for each in words if not each.startswith("-") and not (ROOT / each).exists()]
    assert not missing


def check_script(name: str) -> None:
    assert os.access(ROOT / name, os.X_OK), f"{name} is no program"


PROGRAMS: Mapping[str, Callable[[tuple[str, ...]], None]] = {
    "make": check_make,
    "python": check_python,
    "tidelock": check_tidelock,
    "kubectl": check_kubectl,
    "pytest": check_pytest,
    "cd": lambda words: check_folder(*words),
    "cp": lambda words: check_files(*words[:-1]),
}


def check_files(*names: str) -> None:
    assert all((ROOT / name).is_file() for name in names), f"not all there: {names}"


def check_folder(name: str) -> None:
    assert (ROOT / name).is_dir(), f"there is no folder {name}"


def check_command(command: Command) -> None:
    program, *arguments = command.words
    program = program.removeprefix(".venv/bin/")
    if program.startswith("hack/"):
        check_script(program)
        return
    assert program in PROGRAMS or reason(command), f"{program} is neither checked nor listed in NOT_REPLAYED"
    if program in PROGRAMS:
        PROGRAMS[program](tuple(arguments))


# -------------------------------------------------------------------------------------------- blocks


def check_commands(block: Block) -> None:
    for command in commands(block):
        try:
            check_command(command)
        except (AssertionError, SystemExit, ImportError) as error:
            raise AssertionError(f"{command}: {error}") from error


def check_excerpt(block: Block) -> None:
    """Check that the text of a program or package is part of an example, which has tests of its own."""
    files = [path.read_text() for path in _EXAMPLES.rglob("*") if path.suffix in {".py", ".toml", ".yaml"}]
    assert any(block.text.strip() in text for text in files), f"{block}: is in no file of docs/examples"


def check_toml(block: Block) -> None:
    tomllib.loads(block.text)
    check_excerpt(block)


def check_text(block: Block) -> None:
    found = _CHECKED_ELSEWHERE.search(block.text)
    assert not found, f"{block}: {found[0]!r} belongs into a block of sh, console or yaml"


LANGUAGES: Mapping[str, Callable[[Block], None]] = {
    "yaml": check_yaml,
    "sh": check_commands,
    "console": check_commands,
    "json": lambda block: check_json(json.loads(block.text)),
    "toml": check_toml,
    "python": check_excerpt,
    "text": check_text,
}


@pytest.fixture(autouse=True)
def only_parsed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """End programs once they have read their command line, in a folder with the files that they open."""

    def parse(parser: ArgumentParser, args: Any = None, namespace: Any = None) -> Namespace:
        for value in vars(original(parser, args, namespace)).values():
            if isinstance(value, IOBase):
                value.close()
        raise ParsedError

    original = ArgumentParser.parse_args
    monkeypatch.setattr(ArgumentParser, "parse_args", parse)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.chdir(tmp_path)
    for name in ("pod.yaml", "surge.yaml", "reservations.yaml", "FILE"):
        (tmp_path / name).touch()


@pytest.mark.parametrize("block", blocks(), ids=str)
def test_a_block_is_valid_for_its_kind(block: Block) -> None:
    check = LANGUAGES.get(block.language)
    assert check, f"{block}: a block of {block.language or 'no language'}, which nothing checks"
    check(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_in_sentences_are_valid(page: Path) -> None:
    for block in sentences(page):
        check_commands(block)
