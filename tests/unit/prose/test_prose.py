"""hack/prose.py: the count of words in docstrings and comments, and the limits of a package."""

from pathlib import Path

import pytest

import prose

SOURCE = '''"""A module; it has a docstring."""

NAME = "nobody counts in a string"
"""What an attribute is."""


def ask(what: str) -> str:  # the one who asks
    """Tell what is known. Nobody knows what if was."""
    return what
'''


def test_docstrings_and_comments_are_counted_and_code_is_not() -> None:
    found = prose.measure(prose.passages(SOURCE)).found
    assert +found == {"semicolon": 1, "what": 2, "who": 1, "tell": 1, "nobody": 1}


@pytest.mark.parametrize(
    ("text", "exceeded"),
    [
        ("a pod " * 500 + "; " * 4, []),
        ("a pod " * 500 + "; " * 5, ["semicolon"]),
        ("one who waits", []),
        ("one who waits for one who is told", ["who"]),
        ("one who is told, and tells", ["tell"]),
    ],
)
def test_a_single_occurrence_never_exceeds_a_limit(text: str, exceeded: list[str]) -> None:
    measured = prose.measure(iter([text]))
    assert [each.name for each in prose.PATTERNS if measured.exceeds(each)] == exceeded


def test_every_package_is_measured() -> None:
    assert {"main", "model/api", "ledger/queue", "plugins/reservation"} <= prose.packages().keys()


def test_every_package_of_hack_is_measured() -> None:
    folders = {path.parent.name for path in prose.ROOTS["hack/"].glob("*/__init__.py")}
    assert {"bench", "devcluster", "mutation"} <= folders
    assert {"hack/prose", *(f"hack/{name}" for name in folders)} <= prose.packages().keys()


def test_modules_are_grouped_by_folder_and_top_level_modules_stand_for_themselves(tmp_path: Path) -> None:
    for name in ("main.py", "model/pods.py", "model/api/crds.py", "model/nodes.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = prose.packages({"": tmp_path / "model", "all/": tmp_path})
    assert {name: [path.stem for path in paths] for name, paths in found.items()} == {
        "nodes": ["nodes"],
        "pods": ["pods"],
        "api": ["crds"],
        "all/main": ["main"],
        "all/model": ["nodes", "pods"],
        "all/model/api": ["crds"],
    }
