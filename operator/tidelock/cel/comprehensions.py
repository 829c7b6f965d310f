"""The loops of the macros, over lists and over the keys or entries of maps."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidelock.cel.access import decided
from tidelock.cel.errors import EvaluationError, no_such_overload
from tidelock.cel.functions import Frame, Run, spend
from tidelock.cel.libraries.lists import sort_by, sort_cost
from tidelock.cel.limits import check_elements
from tidelock.cel.values import ELEMENT, NONE, Optional, key_text, keys, map_key, type_name


@dataclass(frozen=True, slots=True)
class Loop:
    """A compiled comprehension: its range, the slots of its variables, and the cost of each turn."""

    target: Run
    slots: tuple[int, ...]
    condition: Run | None
    body: Run
    cost: int

    def turns(self, frame: Frame) -> Iterator[None]:
        """Set the variables to each element for which the condition holds. Raises EvaluationError."""
        first, second = self.slots[0], self.slots[-1]
        for key, value in self._entries(self.target(frame)):
            spend(frame, self.cost)
            frame[first], frame[second] = key, value
            if self.condition is None or self._holds(frame):
                yield

    def _entries(self, target: object) -> Iterable[tuple[object, object]]:
        """Return the values of both variables. A single variable takes the second of each pair."""
        single = len(self.slots) == 1
        if isinstance(target, list):
            return ((None, each) for each in target) if single else enumerate(target)
        if not isinstance(target, dict):
            raise EvaluationError(f"got '{type_name(target)}', expected iterable type")
        if single:
            return ((None, key) for key in keys(target))
        return zip(keys(target), target.values(), strict=True)

    def _holds(self, frame: Frame) -> bool:
        holds = self.condition(frame) if self.condition is not None else True
        if type(holds) is not bool:
            raise no_such_overload()
        return bool(holds)


def _quantifier(loop: Loop, *, decisive: bool) -> Run:
    """Return `all`, which False decides, or `exists`, which True decides. A decision absorbs errors."""
    return lambda frame: decided((loop.body for _ in loop.turns(frame)), frame, decisive=decisive)


def _exists_one(loop: Loop) -> Run:
    def run(frame: Frame) -> bool:
        count = 0
        for _ in loop.turns(frame):
            value = loop.body(frame)
            if type(value) is not bool:
                raise no_such_overload()
            count += value
        return count == 1

    return run


def _filter(loop: Loop) -> Run:
    selection = Loop(loop.target, loop.slots, loop.body, loop.body, loop.cost)
    return lambda frame: [frame[loop.slots[0]] for _ in selection.turns(frame)]


def _map(loop: Loop) -> Run:
    return lambda frame: [loop.body(frame) for _ in loop.turns(frame)]


def _insert(entries: dict[object, object], key: object, value: object) -> None:
    if key in entries:
        raise EvaluationError(f"insert failed: key {key_text(key)} already exists")
    entries[key] = value


def _transform_map(loop: Loop) -> Run:
    def run(frame: Frame) -> object:
        entries: dict[object, object] = {}
        for _ in loop.turns(frame):
            _insert(entries, map_key(frame[loop.slots[0]]), loop.body(frame))
        return entries

    return run


def _transform_map_entry(loop: Loop) -> Run:
    def run(frame: Frame) -> object:
        entries: dict[object, object] = {}
        for _ in loop.turns(frame):
            added = loop.body(frame)
            if not isinstance(added, dict):
                raise no_such_overload()
            spend(frame, ELEMENT * len(added))
            check_elements(len(entries) + len(added))
            for key, value in added.items():
                _insert(entries, key, value)
        return entries

    return run


def _sort_by(loop: Loop) -> Run:
    def run(frame: Frame) -> object:
        elements = loop.target(frame)
        if not isinstance(elements, list):
            raise no_such_overload()
        by = [loop.body(frame) for _ in loop.turns(frame)]
        spend(frame, sort_cost(by))
        return sort_by(elements, by)

    return run


def _bind(loop: Loop) -> Run:
    target, body, slot = loop.target, loop.body, loop.slots[0]

    def run(frame: Frame) -> object:
        frame[slot] = target(frame)
        return body(frame)

    return run


def _optional_map(loop: Loop, wrap: Callable[[object], object]) -> Run:
    def run(frame: Frame) -> object:
        optional = loop.target(frame)
        if not isinstance(optional, Optional):
            raise no_such_overload()
        if not optional.present:
            return NONE
        frame[loop.slots[0]] = optional.value
        return wrap(loop.body(frame))

    return run


BUILDERS: dict[str, Callable[[Loop], Run]] = {
    "all": lambda loop: _quantifier(loop, decisive=False),
    "exists": lambda loop: _quantifier(loop, decisive=True),
    "exists_one": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_map_entry,
    "sortBy": _sort_by,
    "bind": _bind,
    "optMap": lambda loop: _optional_map(loop, Optional),
    "optFlatMap": lambda loop: _optional_map(loop, lambda value: value),
}
"""The compilers of each macro."""
