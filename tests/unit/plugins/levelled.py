"""Nodes with measured levels, and their scores."""

from typing import Any

from builders import NOW, level, node, pod
from tidelock.framework.decision_time import DecisionTime
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import NODE_LEVEL
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from unit.plugins.scene import Scene

# The published figures are of this scoring.
PACKING = {"scoring": "TargetLoadPacking"}
CPU_ALONE = {"resources": [{"name": "cpu"}], **PACKING}
STATIC = {"target": {"mode": "Static", "percent": 20}}
POD = pod(requests={"cpu": "1"})


def measured(
    name: str = "node-a", cpu: float = 0, memory: float = 0, *, at: float = NOW, **size: str
) -> Node:
    """Return a node of 100 cores, so one core is one percent."""
    fields = {"cpu": "100", "memory": "100Gi", **size}
    return node(name, annotations={NODE_LEVEL: level(cpu, memory, at=at)}, **fields)


def scored(scene: Scene, **args: Any) -> list[float]:
    return list(scene.judge(WaterLevelBalance, POD, **CPU_ALONE, **args).scores.values())


def at(now: float) -> DecisionTime:
    return DecisionTime(now)
