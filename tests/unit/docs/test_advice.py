"""Advice of pages, manifests and messages, which a reader pastes into a cluster that is in use.

`check`, the log and the runbooks advised `kubectl apply --server-side -k manifests/base`, and feature pages a
whole overlay. That replaced the image of an installation by one without a registry, took its replicas and
arguments away, and left its webhooks without a server.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from documents import PAGES, ROOT, blocks, page_block
from installation.rendering import PARTS

INSTALLATION = ROOT / "docs" / "installation.md"
_MANIFESTS = ROOT / "manifests"
_TEXTS = (
    *PAGES,
    *(ROOT / name for name in ("CHANGELOG.md", "SECURITY.md", "Dockerfile", "Makefile")),
    *sorted(path for path in _MANIFESTS.rglob("*") if path.suffix in {".md", ".txt", ".yaml"}),
    *sorted((ROOT / ".github").rglob("*.y*ml")),
)
_PROGRAMS = sorted(path for folder in ("operator", "hack") for path in (ROOT / folder).rglob("*.py"))

_REST = r"[^\n`]*"  # of a command
_KEPT = r"--reset-then-reuse-values|--values|-f "  # --reuse-values lacks the defaults of a newer chart
_EVERYWHERE: Mapping[str, re.Pattern[str]] = {
    "is no published package, so anyone may publish one of that name": re.compile(
        rf"\b(?:pipx?|uv)(?: tool| pip)? (?:install|run) {_REST}\btidelock\b"
    ),
    "leaves the values of the release out": re.compile(rf"helm upgrade \w(?!{_REST}(?:{_KEPT})){_REST}"),
    "changes what the next apply changes back": re.compile(
        rf"kubectl (?:edit|replace|scale|set) \w{_REST}",
    ),
}
"""Advice that no text may have, with the reason."""
_OUTSIDE: Mapping[str, re.Pattern[str]] = {
    "replaces an installation by another one": re.compile(
        rf"kubectl {_REST}(?:-k|--kustomize|-f)[ =]\S*\b(?:base|overlays|components|monitoring)\b"
    ),
    "names a part as if it were an installation": re.compile(
        r"(?i)\b(?:appl(?:y|ies)|install|add)\b[^.;:|\n]{0,30}\bmanifests/(?:base|overlays)\b"
    ),
    "is an installation without the choices of its user": re.compile(r"(?:manifests/|`)overlays/\S*"),
    "deletes the operator, or all objects of a kind": re.compile(
        rf"kubectl delete {_REST}(?:-k |\bcrds?\b|customresource|namespaces? tidelock|deployment){_REST}"
    ),
}
"""Advice that only the installation page may have, because its reader chooses the parts."""


def problems(text: str, *, installation: bool = False) -> list[str]:
    """Return each harmful advice in a text with its reason. One about installations may be on their page."""
    rules = {**_EVERYWHERE, **({} if installation else _OUTSIDE)}
    return [f"{found[0]!r} {why}" for why, rule in rules.items() for found in rule.finditer(text)]


def literals(path: Path) -> Iterator[str]:
    """Yield the texts of a program: its constants and the constant parts of its templates."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.parametrize("path", _TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_or_manifest_advises_nothing_that_takes_an_installation_down(path: Path) -> None:
    assert problems(path.read_text(), installation=path == INSTALLATION) == []


def test_a_message_advises_nothing_that_takes_an_installation_down() -> None:
    found = {
        str(path.relative_to(ROOT)): wrong
        for path in _PROGRAMS
        if (wrong := [each for text in literals(path) for each in problems(text)])
    }
    assert found == {}


@pytest.mark.parametrize(
    "advice",
    [
        "install it (kubectl apply --server-side -k manifests/base), or choose another",
        "kubectl apply --server-side --force-conflicts -k manifests/components/extender",
        "kubectl apply -f manifests/base/",
        "the ClusterRole is older than the image. Apply `manifests/base` again.",
        "For all others install `manifests/overlays/extender`.",
        "kubectl delete -k crds",
        "kubectl delete namespace tidelock-system",
        "helm upgrade tidelock manifests/chart --namespace tidelock-system --set replicas=2",
        "helm upgrade tidelock manifests/chart --reuse-values",
        "kubectl scale deployment tidelock -n tidelock-system --replicas 0",
        "only the client is installed: pip install 'tidelock[operator]'",
        "pip install tidelock",
    ],
)
def test_harmful_advice_is_found(advice: str) -> None:
    assert problems(advice)


@pytest.mark.parametrize(
    "advice",
    [
        "kubectl apply --server-side -k crds",
        "kubectl apply --server-side -k .",
        "add `manifests/components/extender` to your kustomization, or set `extender.enabled`",
        "helm upgrade tidelock manifests/chart --namespace tidelock-system --reset-then-reuse-values",
        "pip install '.[operator]'   # in a checkout",
        "kubectl apply -k manifests/shadow",
    ],
)
def test_harmless_advice_is_left_alone(advice: str) -> None:
    assert problems(advice) == []


@pytest.mark.parametrize("part", PARTS)
def test_a_page_names_each_part_by_its_folder_and_by_its_value(part: str) -> None:
    """A reader adds a part to the installation at hand, whichever way that was installed."""
    ((key, value),) = PARTS[part].items()
    nested = isinstance(value, dict) and part != "components/scheduler"
    name = f"{key}.{next(iter(value))}" if nested else key
    pages = [page.read_text() for page in PAGES if page != INSTALLATION]
    assert any(f"`manifests/{part}" in page and re.search(rf"`{name}[`:]", page) for page in pages)


def test_a_worker_of_multikueue_has_no_retries() -> None:
    """After a retry Kueue waits for a job to stop, which a worker does not have, so the copy never runs."""
    page = ROOT / "docs" / "kueue.md"
    (worker,) = page_block(page, "worker.yaml").documents
    (usual, *_) = page_block(page, "queue.yaml").documents
    assert worker["spec"].pop("retryStrategy") == {"backoffLimitCount": 0}
    assert usual["spec"].pop("retryStrategy")["backoffLimitCount"] > 0
    assert worker == usual


def test_a_patch_of_the_arguments_adds_to_them() -> None:
    """A patch with a whole list takes the arguments of all components away, such as `--admission`."""
    patches = [block for block in blocks() if block.title.startswith(("patch-", "kustomization"))]
    assert [str(block) for block in patches if re.search(r"\bargs: *\[", block.text)] == []


def test_only_the_base_has_the_deployment() -> None:
    """A second folder that can be applied as it is would replace an installation with other parts."""
    contents = {path: yaml.safe_load(path.read_text()) for path in _MANIFESTS.rglob("kustomization.yaml")}
    resources = {path.parent.name: content.get("resources", ()) for path, content in contents.items()}
    assert [name for name, each in resources.items() if "deployment.yaml" in each] == ["base"]
    assert [name for name, each in resources.items() if any("base" in path for path in each)] == []
