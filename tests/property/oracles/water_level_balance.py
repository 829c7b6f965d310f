"""WaterLevelBalance for one node, and the target of a group."""

from collections.abc import Mapping, Sequence

SPANS = {"15m": 900.0, "1h": 3600.0, "1d": 86_400.0}


def points(use: float, target: float) -> float:
    """Score a use that includes the pod against a target, both in percent."""
    if use > 100:
        return 0.0
    if use <= target:
        return 100.0 if target == 0 else (100 - target) * use / target + target
    return target * (100 - use) / (100 - target)


def dynamic_target(levels: Sequence[float], min_weight: float) -> float:
    mean = sum(levels) / len(levels)
    return min(max((mean + min_weight * min(levels)) / (1 + min_weight), 0), 100)


def not_covered(window: str, bound_at: float | None, sampled_at: float) -> float:
    """Return the fraction of a window for which a pod was not there, or 1 if it is not bound yet."""
    if bound_at is None:
        return 1.0
    return min(max(1 - (sampled_at - bound_at) / SPANS[window], 0.0), 1.0)


def score(
    levels: Mapping[str, Mapping[str, float]],
    targets: Mapping[str, Mapping[str, float]],
    pod: Mapping[str, float],
    weights: Mapping[str, float],
    shares: Mapping[str, float],
) -> float:
    """Score a node.

    Args:
        levels: percent by window and resource, without the pod.
        targets: percent by window and resource.
        pod: percent of the node that the pod is expected to use.
        weights: of the windows.
        shares: weights of the resources.

    """
    total = sum(
        weights[window] * shares[name] * points(levels[window][name] + pod[name], targets[window][name])
        for window in weights
        for name in shares
    )
    return total / sum(weights.values()) / sum(shares.values())
