"""Tests that pages name as evidence."""

import re
from pathlib import Path

import pytest

from documents import PAGES, ROOT

NAMED = re.compile(r"`(tests/[\w/.-]+\.py)`")
THREATS = ROOT / "docs" / "security.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_test_that_a_page_names_exists(page: Path) -> None:
    assert [name for name in NAMED.findall(page.read_text()) if not (ROOT / name).is_file()] == []


def test_each_control_has_a_test() -> None:
    text = THREATS.read_text().partition("### Controls and their tests")[2].partition("\n## ")[0]
    rows = [line for line in text.splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 10
    assert [row for row in rows if not NAMED.search(row)] == []
