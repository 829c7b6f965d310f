"""Limits on the sizes of the operator's classes, files and functions."""

import ast
from collections.abc import Iterator
from pathlib import Path

OPERATOR = Path(__file__).parents[2] / "operator" / "tidelock"
METHODS, LINES, LINES_OF_A_FUNCTION = 24, 500, 60


def too_large(path: Path) -> Iterator[str]:
    """Yield everything in a file that exceeds a limit."""
    source = path.read_text()
    if (lines := source.count("\n")) > LINES:
        yield f"{path.name} has {lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = sum(isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in node.body)
            if methods > METHODS:
                yield f"{path.name}: {node.name} has {methods} methods"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > LINES_OF_A_FUNCTION:
                yield f"{path.name}: {node.name} has {lines} lines"


def test_the_operator_is_within_its_limits() -> None:
    files = sorted(OPERATOR.rglob("*.py"))
    assert len(files) > 200
    assert [excess for path in files for excess in too_large(path)] == []


def test_everything_that_is_too_large_is_found(tmp_path: Path) -> None:
    methods = "".join(f"    def f{number}(self): pass\n" for number in range(METHODS + 1))
    long = "def long():\n" + "    pass\n" * LINES_OF_A_FUNCTION
    path = tmp_path / "large.py"
    path.write_text(f"class Large:\n{methods}{long}" + "\n" * LINES)
    assert list(too_large(path)) == [
        f"large.py has {LINES + METHODS + LINES_OF_A_FUNCTION + 3} lines",
        f"large.py: Large has {METHODS + 1} methods",
        f"large.py: long has {LINES_OF_A_FUNCTION + 1} lines",
    ]
