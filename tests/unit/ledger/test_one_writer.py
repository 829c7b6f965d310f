"""The rule that only the ledger changes a reservation's state, so that it applies all consequences."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import tidelock
from tidelock.ledger.reservation_info import ReservationInfo

PACKAGE = Path(tidelock.__file__).parent
FIELDS = {each.name for each in fields(ReservationInfo)}
# Variables of other types that have a field of the same name, by the module's package.
OTHERS = {
    "waiting": "QueuedPodInfo: message, place",
    "shared": "EquivalenceClass: plan",
    "self": "the object itself",
}


def writes(source: str) -> Iterator[str]:
    """List the assignments to a field of a reservation in some code."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or isinstance(node.ctx, ast.Load) or node.attr not in FIELDS:
            continue
        if not (isinstance(node.value, ast.Name) and node.value.id in OTHERS):
            yield ast.unparse(node)


def test_no_module_outside_the_ledger_writes_a_reservations_state() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(PACKAGE / "ledger")]
    assert len(modules) > 100

    found = {str(path.relative_to(PACKAGE)): list(writes(path.read_text())) for path in modules}

    assert {name: written for name, written in found.items() if written} == {}


def test_every_form_of_a_write_is_found() -> None:
    source = """
entry.phase = 1
entry.node, other = "a", 2
self.entry.plan = None
each.moved_pods += 1
del entry.lease
for entry.reason in reasons: pass
with lease as entries[0].hold: pass
known = entry.phase
"""
    assert sorted(writes(source)) == [
        "each.moved_pods",
        "entries[0].hold",
        "entry.lease",
        "entry.node",
        "entry.phase",
        "entry.reason",
        "self.entry.plan",
    ]
