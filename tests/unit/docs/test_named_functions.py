"""Functions and types that the pages about the life of a pod and a reservation name."""

import importlib
import re
from pathlib import Path

import pytest

from documents import ROOT

NAMED = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`")
PAGES = (ROOT / "docs" / "life-of-a-pod.md", ROOT / "docs" / "life-of-a-reservation.md")


def resolve(name: str) -> object:
    """Return the module, class, function or method with a dotted name within the package."""
    found: object = importlib.import_module("tidelock")
    path = "tidelock"
    for part in name.split("."):
        path = f"{path}.{part}"
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(path)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_function_that_a_page_names_exists(page: Path) -> None:
    names = NAMED.findall(page.read_text())
    assert len(names) > 15
    missing = []
    for name in names:
        try:
            resolve(name)
        except (ImportError, AttributeError):
            missing.append(name)
    assert missing == []


def test_a_function_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(ImportError):
        resolve("ledger.ledger.Ledger.no_such_function")
