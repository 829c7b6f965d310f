"""Differences between two decisions about the same pod."""

from collections import Counter
from collections.abc import Iterator, Mapping

from differential.tidelock_side import Judgement
from differential.upstream import Decision


def differences(upstream: Decision, ours: Judgement) -> Iterator[str]:
    """Yield the differences between both decisions, or nothing if they agree."""
    if ours.feasible != upstream.feasible:
        missing, more = upstream.feasible - ours.feasible, ours.feasible - upstream.feasible
        yield f"feasible: missing {sorted(missing)}, too many {sorted(more)}"
    elif upstream.node_name:
        yield from _of_scores(upstream, ours)
    elif not ours.message.startswith(upstream.reasons):
        yield f"message: upstream {upstream.reasons!r}, ours {ours.message!r}"
    elif upstream.beyond_help not in (None, ours.beyond_help):
        yield f"no preemption helps on {upstream.beyond_help} nodes, ours {ours.beyond_help}"


def _of_scores(upstream: Decision, ours: Judgement) -> Iterator[str]:
    if len(upstream.feasible) > 1:
        for plugin in sorted(upstream.scores.keys() | ours.scores.keys()):
            theirs, mine = upstream.scores.get(plugin), ours.scores.get(plugin)
            if theirs != mine and not (_decides_nothing(theirs) and _decides_nothing(mine)):
                yield f"{plugin}: upstream {theirs}, ours {mine}"
        totals: Counter[str] = Counter()
        for points in upstream.scores.values():
            totals.update(points)
        if totals[ours.node_name] != max(totals.values()):
            yield f"chosen: {ours.node_name} of {dict(totals)}"
    elif ours.node_name != upstream.node_name:
        yield f"chosen: {ours.node_name} instead of {upstream.node_name}"


def _decides_nothing(points: Mapping[str, int] | None) -> bool:
    """Return whether a plugin was skipped or gave all nodes the same score, which has the same effect."""
    return not points or len(set(points.values())) == 1
