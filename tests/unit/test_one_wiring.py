"""One place puts the scheduler together, so the tested program is the one that ships."""

import ast
from collections.abc import Iterator
from pathlib import Path

from documents import ROOT
from tidelock.scheduler import assembly, scheduler_core
from tidelock.scheduler.controllers import controllers

# The parts that must be connected with each other, by the modules that make them.
_MAKERS = {
    "operator/tidelock/scheduler/scheduler_core.py": ("Decider", "EventHandlers"),
    "operator/tidelock/scheduler/assembly.py": (
        *("DecisionLoop", "Binder", "GateReporter", "Evictor", "StatusWriter"),
        *("PodGroupWriter", "ExtenderCaller", "FairApi"),
    ),
    "operator/tidelock/scheduler/controllers/controllers.py": (
        *("QuotaController", "QuoteController", "GroupController", "ScheduleController"),
    ),
}
_FOLDERS = ("operator", "hack", "tests", "docs/examples")


def calls(path: Path) -> Iterator[str]:
    """Yield the names of the functions and classes that a file calls."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                yield node.func.id
            elif isinstance(node.func, ast.Attribute):
                yield node.func.attr


def test_nothing_else_makes_a_part_that_must_be_connected() -> None:
    makers = {name: maker for maker, names in _MAKERS.items() for name in names}
    wrong = [
        f"{path.relative_to(ROOT)} calls {name}"
        for folder in _FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for name in sorted(set(calls(path)) & makers.keys())
        if str(path.relative_to(ROOT)) != makers[name]
    ]
    assert not wrong


def test_the_makers_make_them() -> None:
    """Check that the names above are still those of parts."""
    for module, names in zip((scheduler_core, assembly, controllers), _MAKERS.values(), strict=True):
        assert module.__file__ is not None
        assert set(names) <= set(calls(Path(module.__file__)))
