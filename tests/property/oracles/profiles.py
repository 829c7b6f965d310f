"""The plugins that run at an extension point, by the rules of kube-scheduler 1.36, one at a time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Listed:
    """The lists of a file for an extension point, or for multiPoint: (name, weight) pairs, and names."""

    enabled: tuple[tuple[str, int], ...] = ()
    disabled: tuple[str, ...] = ()


class TwiceError(Exception):
    """An error: a plugin would run twice."""


def merge(defaults: Iterable[tuple[str, int]], custom: Listed) -> list[tuple[str, int]]:
    """Merge multiPoint with the default plugins."""
    result: list[tuple[str, int]] = []
    used: set[int] = set()
    for name, weight in defaults:
        if "*" in custom.disabled or name in custom.disabled:
            continue
        index = max((i for i, (other, _) in enumerate(custom.enabled) if other == name), default=None)
        if index is None:
            result.append((name, weight))
        else:
            result.append(custom.enabled[index])
            used.add(index)
    result += [entry for index, entry in enumerate(custom.enabled) if index not in used]
    return result


def expand(
    general: list[tuple[str, int]], own: Listed, implements: Mapping[str, bool]
) -> list[tuple[str, int]]:
    """Return the plugins of an extension point in order, with their weights."""
    listed = [name for name, _ in own.enabled]
    if len(set(listed)) < len(listed):
        raise TwiceError
    weights: dict[str, int] = {}
    for name, weight in (*own.enabled, *general):
        weights.setdefault(name, weight or 1)
    if "*" in own.disabled:
        return [(name, weights[name]) for name in listed]
    overrides: set[str] = set()
    from_general: list[str] = []
    for name, _ in general:
        if not implements[name] or name in own.disabled:
            continue
        if name in listed:
            overrides.add(name)
        elif name in from_general:
            raise TwiceError
        else:
            from_general.append(name)
    first = [name for name in listed if name in overrides]
    last = [name for name in listed if name not in overrides]
    return [(name, weights[name]) for name in (*first, *from_general, *last)]
