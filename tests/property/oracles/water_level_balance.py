"""WaterLevelBalance for one node, and the target of a group, in exact fractions."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

SPANS = {"15m": 900, "1h": 3600, "1d": 86_400}

Amounts = Mapping[str, Mapping[str, Fraction]]
"""Percent by window and resource."""


def constant_slopes(use: Fraction, target: Fraction) -> Fraction:
    """Score by the distance from the target: a point for a percent below it, half a point beyond."""
    lost = target - use if use <= target else (use - target) / 2
    return max(100 - lost, Fraction(0))


def target_load_packing(use: Fraction, target: Fraction) -> Fraction:
    if use > 100:
        return Fraction(0)
    if use <= target:
        return Fraction(100) if target == 0 else (100 - target) * use / target + target
    return target * (100 - use) / (100 - target)


def dynamic_target(levels: Sequence[Fraction], min_weight: Fraction) -> Fraction:
    mean = sum(levels, Fraction(0)) / len(levels)
    return min(max((mean + min_weight * min(levels)) / (1 + min_weight), Fraction(0)), Fraction(100))


def not_covered(window: str, bound_at: float | None, sampled_at: float) -> Fraction:
    """Return the fraction of a window for which a pod was not there, or 1 if it is not bound yet."""
    if bound_at is None:
        return Fraction(1)
    share = 1 - (Fraction(sampled_at) - Fraction(bound_at)) / SPANS[window]
    return min(max(share, Fraction(0)), Fraction(1))


def score(
    scoring: str,
    combination: str,
    node: Amounts,
    group: Sequence[Amounts],
    targets: Amounts,
    pod: Mapping[str, Fraction],
    windows: Mapping[str, int],
    resources: Mapping[str, int],
) -> Fraction:
    """Score a node.

    Args:
        scoring: the rule for one window and resource.
        combination: how the resources are combined.
        node: its levels without the pod.
        group: the levels of all nodes of its group.
        targets: those of the group.
        pod: percent of the node that the pod is expected to use.
        windows: their weights.
        resources: their weights.

    """
    rule = {"ConstantSlopes": constant_slopes, "TargetLoadPacking": target_load_packing}[scoring]

    def points(window: str, name: str) -> Fraction:
        return rule(node[window][name] + pod[name], targets[window][name])

    def weighed(window: str) -> Mapping[str, Fraction]:
        plain = {name: Fraction(weight) for name, weight in resources.items()}
        if combination != "Scarcity":
            return plain
        used = {name: weight * sum(each[window][name] for each in group) for name, weight in plain.items()}
        return used if any(used.values()) else plain

    def mean(window: str) -> Fraction:
        weights = weighed(window)
        total = sum((weight * points(window, name) for name, weight in weights.items()), Fraction(0))
        return total / sum(weights.values(), Fraction(0))

    parts = {window: Fraction(weight, sum(windows.values())) for window, weight in windows.items()}
    if combination == "Worst":
        return min(
            sum((part * points(window, name) for window, part in parts.items()), Fraction(0))
            for name in resources
        )
    return sum((part * mean(window) for window, part in parts.items()), Fraction(0))
