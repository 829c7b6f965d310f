"""Pages that must be complete: the map, troubleshooting by reason and check, and the glossary."""

import ast
import re
from pathlib import Path

import pytest

from documents import ROOT
from tidelock.client.advice import ADVICE

DOCS = ROOT / "docs"
OPERATOR = ROOT / "operator" / "tidelock"
# The steps of a manager when nothing is wrong. Troubleshooting has no advice for such reasons.
FINE = re.compile(r"none|send the pod|read |reserve$")
# Reasons whose step begins like those, but for a reservation that ended or waits.
ENDED = {"Consumed", "Planned"}


def linked(page: Path) -> set[Path]:
    """Return the pages of docs to which a page links."""
    targets = re.findall(r"\]\(([^)#\s]+\.md)", page.read_text())
    found = {(page.parent / target).resolve() for target in targets}
    return {path for path in found if path.is_relative_to(DOCS)}


def test_every_page_is_on_the_map_or_one_link_from_it() -> None:
    """The index is the map. Plugins have an index of their own."""
    index = DOCS / "index.md"
    reached = {index} | linked(index) | linked(DOCS / "plugins" / "README.md")
    pages = {path for path in DOCS.rglob("*.md") if "examples" not in path.parts}
    assert pages - reached == set()


@pytest.mark.parametrize("reason", sorted(ADVICE))
def test_troubleshooting_has_each_reason_that_is_a_symptom(reason: str) -> None:
    if FINE.match(ADVICE[reason].step) and reason not in ENDED:
        return
    assert f"`{reason}`" in (DOCS / "troubleshooting.md").read_text()


def test_troubleshooting_has_each_row_of_the_check() -> None:
    """A row's name is the first argument of its finding, or of the call that looks for it."""
    rows = set()
    for name in ("check", "installation", "installation_checks", "state_checks"):
        for node in ast.walk(ast.parse((OPERATOR / "cli" / f"{name}.py").read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                if node.func.id in {"CheckFinding", "_looked"} and isinstance(first, ast.Constant):
                    rows.add(str(first.value))
    assert len(rows) >= 9
    text = (DOCS / "troubleshooting.md").read_text()
    assert [row for row in sorted(rows) if f"| `{row}`" not in text] == []


def test_the_code_that_the_glossary_names_exists() -> None:
    paths = {path.with_suffix("").name for path in OPERATOR.rglob("*") if path.suffix in {".py", ""}}
    source = "\n".join(path.read_text() for path in OPERATOR.rglob("*.py"))
    defined = set(re.findall(r"^\s*(?:class|(?:async )?def) (\w+)", source, re.MULTILINE))
    defined |= set(re.findall(r"^    (\w+): ", source, re.MULTILINE)) | set(
        re.findall(r"^(\w+) = ", source, re.MULTILINE)
    )
    missing = []
    for table in (DOCS / "glossary.md").read_text().split("\n\n"):
        rows = [
            [cell.strip() for cell in line.split("|")[1:-1]]
            for line in table.splitlines()
            if line.startswith("|")
        ]
        if not rows or "code" not in rows[0]:
            continue
        column = rows[0].index("code")
        for row in rows[2:]:
            names = re.findall(r"`([\w.]+)`", row[column])
            missing += [name for name in names if name.rpartition(".")[2] not in defined | paths]
    assert missing == []
