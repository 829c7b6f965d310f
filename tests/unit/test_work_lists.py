"""Work for another object is in a `WorkQueue`. No module empties a collection that another object fills."""

import ast
from collections.abc import Iterator
from pathlib import Path

OPERATOR = Path(__file__).parents[2] / "operator" / "tidelock"


_COLLECTIONS = {"list", "dict", "set", "deque", "defaultdict", "OrderedDict", "Counter"}


def _is_empty_collection(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id in _COLLECTIONS
    if isinstance(value, ast.Dict):
        return not value.keys
    return isinstance(value, ast.List) and not value.elts


def _assignments(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target with its value, also those of `a, b = c, d`."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=True)
        else:
            yield target, node.value


def drained(source: str) -> Iterator[str]:
    """Yield the attributes of other objects that some code replaces by an empty collection."""
    for node in ast.walk(ast.parse(source)):
        for target, value in _assignments(node) if isinstance(node, ast.Assign) else ():
            if not isinstance(target, ast.Attribute) or not _is_empty_collection(value):
                continue
            if not (isinstance(target.value, ast.Name) and target.value.id == "self"):
                yield ast.unparse(target)


def test_no_module_drains_a_list_of_another_object() -> None:
    files = sorted(OPERATOR.rglob("*.py"))
    assert len(files) > 200

    found = {path.relative_to(OPERATOR).as_posix(): list(drained(path.read_text())) for path in files}

    assert {name: lists for name, lists in found.items() if lists} == {}


def test_every_form_of_draining_is_found() -> None:
    source = """
work, ledger.opened = ledger.opened, []
self.queue.gated = {}
self._own = []
quotas.changed = set()
entry.node = "a"
"""
    assert list(drained(source)) == ["ledger.opened", "self.queue.gated", "quotas.changed"]
