"""The worlds of the benchmark of balance: plain ones, and variants in which measured use says less."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from bench.world_results import PLAIN, Case
from tidelock.simulation.measuring import DEFAULT_METRICS, MetricsTiming
from tidelock.simulation.worlds import Setting

_MIXED = (8, 16, 32)
_EQUAL = (16,)
_ROLLOUTS = 8
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Variant:
    """A difference from the plain world.

    Attributes:
        about: one line about it.
        setting: fields of the Setting that differ.
        lag: seconds until a sample can be read, or None for the default.
        scale: factor of the number of nodes.

    """

    about: str
    setting: Mapping[str, Any] = field(default_factory=dict)
    lag: float | None = None
    scale: int = 1


VARIANTS: Mapping[str, Variant] = MappingProxyType(
    {
        PLAIN: Variant("the world as it is"),
        "requests-follow-use": Variant(
            "requests are the mean use, with an error of 0.3", {"request_error": 0.3, "fill": 0.5}
        ),
        "row-by-pod": Variant("each pod follows a row of its own", {"rows": "Pod"}),
        "4-cores": Variant("nodes of 4 cores", {"cores": (4,)}),
        "16-cores": Variant("nodes of 16 cores", {"cores": (16,)}),
        "64-cores": Variant("nodes of 64 cores", {"cores": (64,)}),
        "noise-1": Variant("replicas differ by a noise of 1", {"noise": 1.0}),
        "no-history": Variant("each pod is a separate Deployment", {"apart": True}),
        "90-percent-requested": Variant("90 % of the cores are requested", {"fill": 0.9}),
        "double-load": Variant("all use is doubled, up to the limits", {"load": 2.0}),
        "memory-bound": Variant("90 % of the memory is requested", {"memory": 1.5}),
        "400-nodes": Variant("ten times the nodes", scale=10),
        "15-minutes-late": Variant("metrics are 15 minutes late", lag=15 * _MINUTE),
        "30-minutes-late": Variant("metrics are 30 minutes late", lag=30 * _MINUTE),
    }
)
"""The variants by name. The lag of the plain world is about a minute."""


def setting(case: Case, nodes: int, steps: int) -> Setting:
    """Return the setting of a case. Its seed decides the sizes of nodes and whether there are roll-outs."""
    variant = VARIANTS[case.variant]
    fields = {
        "cores": _MIXED if case.seed % 2 else _EQUAL,
        "noise": case.noise,
        "rollouts": _ROLLOUTS if case.seed // 2 % 2 else 0,
        **variant.setting,
    }
    count = nodes * variant.scale
    return Setting(nodes=count, workloads=2 * count, steps=steps, **fields)


def timing(case: Case) -> MetricsTiming:
    """Return the times of the measurements: those of a WaterLevel at its defaults, or later ones."""
    lag = VARIANTS[case.variant].lag
    default = DEFAULT_METRICS
    if lag is None:
        return default
    return MetricsTiming(interval=default.interval, lag=lag, settling=default.settling)
