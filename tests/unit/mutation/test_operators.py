"""The faults that hack/mutate plants in source code."""

import ast

import pytest

from mutation.operators import changed_lines, mutations


@pytest.mark.parametrize(
    ("source", "mutated"),
    [
        ("a < b", ["a <= b"]),
        ("a is not None", ["a is None"]),
        ("a not in b", ["a in b"]),
        ("x = a and b", ["x = a or b"]),
        ("x = not a", ["x = (a)"]),
        ("x = a + b", ["x = a - b"]),
        ("x = 3", ["x = 4"]),
        ("x = True", ["x = False"]),
        ("x = min(a, b)", ["x = max(a, b)"]),
        ("a.b(c)", ["pass"]),
        ("a.b = c", ["pass"]),
        ("a += b", ["pass"]),
        ("if a:\n    b = c", ["if (not (a)):\n    b = c"]),
        ("for a in b:\n    continue", ["for a in b:\n    pass"]),
        ("def f():\n    return a", ["def f():\n    return None"]),
        ("def f():\n    return", ["def f():\n    pass"]),
        ("def f():\n    return False", ["def f():\n    return True"]),
        ("def f():\n    return None", []),
    ],
)
def test_each_fault_is_one_small_change(source: str, mutated: list[str]) -> None:
    assert [each.apply(source.encode()).decode() for each in mutations(source.encode())] == mutated


@pytest.mark.parametrize(
    "source",
    [
        '"""A module."""',
        "logger.warning(a)",
        "a: Literal[1] = b",
        "def f(a: Literal[1]) -> Literal[2]:\n    raise ValueError(1)",
        "class P(Protocol):\n    a = 1",
        "def __repr__(self):\n    return a",
        "if TYPE_CHECKING:\n    a = 1",
    ],
)
def test_no_fault_is_planted_in_code_without_tests(source: str) -> None:
    assert mutations(source.encode()) == []


def test_every_fault_of_a_module_can_be_compiled() -> None:
    source = (
        "def größer(a, b):\n    if a > 1 and (\n        b\n    ):\n        a.c()\n    return a\n".encode()
    )
    found = mutations(source)
    assert len(found) >= 6
    for each in found:
        ast.parse(each.apply(source))


def test_the_diff_of_a_fault_has_only_the_changed_lines() -> None:
    source = b"a = 1\nif a < 2:\n    b(a)\n"
    comparison = next(each for each in mutations(source) if each.what == "comparison")
    assert list(changed_lines(source, comparison)) == ["- if a < 2:", "+ if a <= 2:"]
