"""A breadth-first search of all states that can be reached."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

S = TypeVar("S", bound=Hashable)

Histories = dict[str, list[str]]
"""A shortest history to each kind of violation, as the names of its steps."""


def search(
    start: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    violations: Callable[[S], Iterable[str]],
    done: Callable[[Histories], bool],
) -> tuple[int, Histories]:
    """Visit all reachable states, or those at most as far away as the violation with which it is done.

    Returns:
        the number of states, and the violations.

    """
    came_by: dict[S, tuple[S | None, str]] = {start: (None, "")}
    found: Histories = {}
    layer = [start]
    while layer and not done(found):
        following = []
        for state in layer:
            for name, after in steps(state):
                if after in came_by:
                    continue
                came_by[after] = (state, name)
                for wrong in violations(after):
                    found.setdefault(wrong, _history(after, came_by))
                following.append(after)
        layer = following
    return len(came_by), found


def _history(state: S, came_by: Mapping[S, tuple[S | None, str]]) -> list[str]:
    names = []
    at: S | None = state
    while at is not None:
        at, name = came_by[at]
        names.append(name)
    return [name for name in reversed(names) if name]
