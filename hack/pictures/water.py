"""Pictures of water levels: their effect, the way of new pods, and the rule of the score."""

import numpy as np

from pictures.canvas import Canvas, Kind, Scale, Segment
from tidelock.framework.measured_use import constant_slope_scores
from tidelock.simulation.world import Floats

_CORES = 8  # of each node
_WORKERS = ("worker-1", "worker-2", "worker-3", "worker-4")
# Cores in use, with the same sum in both halves.
_BEFORE, _AFTER = (7.2, 1.6, 5.6, 2.4), (6.3, 2.5, 5.0, 3.0)
_STEADY, _POD = (1.6, 2.8, 3.04), 1.6  # cores in use on three nodes, and expected of a new pod


def levels() -> Canvas:
    """Draw the use of four nodes with the same requests, placed by requests and by measured use."""
    picture = Canvas(760, 296, "The same pods: placed by requests, and by requests and measured use")
    core = 33
    halves = ((100, "placed by requests", _BEFORE, _WORKERS), (480, "and by water levels", _AFTER, ("",) * 4))
    for x, title, used, names in halves:
        mean = x + core * sum(used) / len(used)
        picture.text(x + core * _CORES / 2, 28, title, anchor="middle", size=16, style="bold")
        for number, amount in enumerate(used):
            segments = (
                Segment(amount, Kind.POD, f"{amount / _CORES:.0%}"),
                Segment(_CORES - amount, Kind.FREE),
            )
            picture.bar((x, 44 + 44 * number), core, segments, names[number])
        picture.line((mean, 38), (mean, 218), style="dashes")
        picture.text(mean, 234, f"mean {np.mean(used) / _CORES:.0%}", anchor="middle", size=12, style="faint")
        spread = 100 * np.std(used) / _CORES
        picture.text(x + core * _CORES / 2, 258, f"deviation: {spread:.0f} points", anchor="middle")
    picture.text(
        20,
        284,
        "Requests are the same on all nodes. They do not show that worker-1 is nearly full.",
        style="faint",
    )
    return picture


def choices() -> Canvas:
    """Draw three pods that arrive before the next reading, each with the scores of three nodes."""
    picture = Canvas(
        760, 236, "Three pods between two readings: each counts at once, so the next goes elsewhere"
    )
    core, used = 18.0, np.array(_STEADY)
    added = np.zeros(len(used))
    for number, title in enumerate(("the first pod", "the second", "the third")):
        x = 90 + 226 * number
        scores, _ = _scores(used + added, _POD)
        best = int(scores.argmax())
        picture.text(x + core * _CORES / 2, 28, title, anchor="middle", style="bold")
        for row, score in enumerate(scores.tolist()):
            expected = added[row] + (_POD if row == best else 0.0)
            free = _CORES - used[row] - expected
            segments = [
                Segment(used[row], Kind.POD),
                Segment(expected, Kind.PREPARED),
                Segment(free, Kind.FREE),
            ]
            shown = [each for each in segments if each.amount]
            picture.bar((x, 44 + 44 * row), core, shown, _WORKERS[row] if number == 0 else "")
            style = "bold" if row == best else "ink"
            picture.text(x + core * _CORES + 8, 66 + 44 * row, f"{score:.1f}", style=style)
        added[best] += _POD
    picture.box((90, 186, 22, 16), Kind.POD)
    picture.text(120, 199, "measured use")
    picture.box((260, 186, 22, 16), Kind.PREPARED)
    picture.text(290, 199, "expected use of pods that the reading does not have yet")
    picture.text(
        20,
        226,
        "The numbers are the scores. Expected use is that of the workload's other pods.",
        style="faint",
    )
    return picture


def score() -> Canvas:
    """Draw the score of three nodes over their levels with a pod, and the target."""
    picture = Canvas(760, 326, "The score of a node by its level with the pod: highest at the target")
    scores, target = _scores(np.array(_STEADY), _POD)
    across, up = Scale(80, 6.2), Scale(270 + 60 * 5, -5)  # from 60 points to 100
    ends = (0.0, target, 100.0)
    heights = _rule(np.array(ends), target)
    picture.line((80, 50), (80, 270), (700, 270))
    picture.line(*((across(level), up(height)) for level, height in zip(ends, heights.tolist(), strict=True)))
    picture.line((across(target), up(100.0)), (across(target), 270), style="dashes")
    picture.text(across(target), 58, f"target {target:.1f} %", anchor="middle")
    for name, used, height in zip(_WORKERS, _STEADY, scores.tolist(), strict=False):
        x, y = across(100 * (used + _POD) / _CORES), up(height)
        picture.box((x - 5, y - 5, 10, 10), Kind.RESERVED if height == scores.max() else Kind.PREPARED)
        lower = name != _WORKERS[1]
        text = f"{name}: {height:.1f}"
        picture.text(
            x + (10 if lower else -10), y + (-8 if lower else 22), text, anchor="start" if lower else "end"
        )
    for level in range(0, 101, 20):
        picture.text(across(level), 288, f"{level} %", anchor="middle", size=12)
    for height in (60, 80, 100):
        picture.text(72, up(height) + 4, f"{height}", anchor="end", size=12)
    picture.text(390, 308, "level of the node with the pod", anchor="middle", size=12, style="faint")
    picture.text(20, 30, "score of one window of one resource", style="bold")
    return picture


def _scores(used: Floats, pod: float) -> tuple[Floats, float]:
    """Return the scores of nodes with a pod (N), and the target in percent, half-way from lowest to mean."""
    present = 100 * used / _CORES
    target = float(present.mean() + present.min()) / 2
    return _rule(present + 100 * pod / _CORES, target), target


def _rule(percents: Floats, target: float) -> Floats:
    return constant_slope_scores([(percents, target, 1.0)], len(percents))
