"""The plugins modelled on Trimaran, crane and Koordinator, against their rules for one node."""

from math import floor
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW, node, pod
from property.oracles import (
    dynamic_load,
    load_aware,
    load_variation_risk_balancing,
    low_risk_over_commitment,
    target_load_packing,
    workload_topology_spread,
)
from tidelock.model.usage_annotations import (
    CRANE_METRICS,
    NODE_LEVEL,
    CraneReading,
    NodeLevel,
    Stat,
    encode_crane,
    encode_node_level,
)
from tidelock.plugins.dynamic_load import DynamicLoad
from tidelock.plugins.load_aware import LoadAware
from tidelock.plugins.load_variation_risk_balancing import LoadVariationRiskBalancing
from tidelock.plugins.low_risk_over_commitment.beta import probability_below, regularized
from tidelock.plugins.low_risk_over_commitment.plugin import LowRiskOverCommitment
from tidelock.plugins.target_load_packing import TargetLoadPacking
from tidelock.plugins.workload_topology_spread.plugin import WorkloadTopologySpread
from unit.plugins.scene import Scene

GIB = 2**30
P95 = 1.6448536269514722

Pair = tuple[float, float]


class Resident(NamedTuple):
    node: int
    cores: int
    gibs: int
    bound_at: float

    @property
    def request(self) -> dict[str, str]:
        return {"cpu": str(self.cores), "memory": f"{self.gibs}Gi"}


class Measured(NamedTuple):
    """The use of a node of 100 cores and 100 GiB: the mean, and the excess of the 95th percentile."""

    age: float
    mean: Pair
    more: Pair

    @property
    def fresh(self) -> bool:
        return self.age <= 180


PERCENT = st.integers(0, 10_000).map(lambda hundredths: hundredths / 100)
PAIRS = st.tuples(PERCENT, PERCENT)
SPREADS = st.tuples(*[st.integers(0, 3000).map(lambda hundredths: hundredths / 100)] * 2)
NODES = st.lists(
    st.builds(Measured, st.sampled_from([0, 10, 180, 181, 9999]), PAIRS, SPREADS), min_size=1, max_size=4
)
BUSY = st.lists(
    st.builds(
        Measured,
        st.sampled_from([0, 180, 181]),
        st.tuples(*[st.integers(2, 98).map(float)] * 2),
        st.tuples(*[st.integers(0, 30).map(float)] * 2),
    ),
    min_size=1,
    max_size=3,
)
RESIDENTS = st.lists(
    st.builds(
        Resident,
        st.integers(0, 3),
        st.integers(1, 40),
        st.integers(1, 40),
        st.integers(-100, 20_000).map(lambda age: NOW - age),
    ),
    max_size=6,
)
WANTED = st.tuples(st.integers(1, 60), st.integers(1, 60))


def scene_of(measured: list[Measured], residents: list[Resident]) -> Scene:
    scene = Scene()
    assert measured
    for index, each in enumerate(measured):
        uses: Any = {
            name: Stat(mean, 100, min(mean + more, 100))
            for name, mean, more in zip(("cpu", "memory"), each.mean, each.more, strict=True)
        }
        level = NodeLevel(NOW - each.age, {"15m": uses})
        annotations = {NODE_LEVEL: encode_node_level(level)}
        scene.cache.put_node(node(f"node-{index}", cpu="100", memory="100Gi", annotations=annotations))
    for number, other in enumerate(residents):
        where = f"node-{other.node}"
        fields = {"requests": other.request, "node_name": where, "bound_at": other.bound_at}
        scene.cache.upsert(pod(f"other-{number}", **fields))
    return scene


def wanting(wanted: tuple[int, int]) -> Any:
    return pod("web", requests={"cpu": str(wanted[0]), "memory": f"{wanted[1]}Gi"})


def deviation(each: Measured, index: int) -> float:
    return (min(each.mean[index] + each.more[index], 100) - each.mean[index]) / P95 / 100


@given(NODES, RESIDENTS, WANTED, st.sampled_from([20, 40, 50]))
@settings(deadline=None)
def test_target_load_packing_scores_match_the_formula(
    measured: list[Measured], residents: list[Resident], wanted: tuple[int, int], target: int
) -> None:
    found = scene_of(measured, residents).judge(TargetLoadPacking, wanting(wanted), targetUtilization=target)
    assert measured
    for index, each in enumerate(measured):
        arrivals = sum(
            1.5 * other.cores
            for other in residents
            if other.node == index and target_load_packing.counts_anew(other.bound_at, NOW - each.age)
        )
        expected = target_load_packing.score(each.mean[0], arrivals, 1.5 * wanted[0], target)
        use = each.mean[0] + arrivals + 1.5 * wanted[0]
        if min(abs(use - target), abs(use - 100)) > 1e-6:  # the formula jumps there
            assert abs(found.scores[f"node-{index}"] - expected * each.fresh) <= (1 if each.fresh else 0)


@given(NODES, WANTED, st.sampled_from([0, 1, 2]), st.sampled_from([0, 0.5, 1, 2]))
@settings(deadline=None)
def test_load_variation_risk_balancing_scores_match_the_formula(
    measured: list[Measured], wanted: tuple[int, int], margin: float, sensitivity: float
) -> None:
    args = {"safeVarianceMargin": margin, "safeVarianceSensitivity": sensitivity}
    found = scene_of(measured, []).judge(LoadVariationRiskBalancing, wanting(wanted), **args)
    assert measured
    for index, each in enumerate(measured):
        expected = min(
            load_variation_risk_balancing.score(
                each.mean[place] / 100, deviation(each, place), wanted[place] / 100, margin, sensitivity
            )
            for place in range(2)
        )
        assert found.scores[f"node-{index}"] == pytest.approx(expected * each.fresh, abs=0.5001 * each.fresh)


@given(st.floats(0.001, 0.999), st.floats(0.05, 50), st.floats(0.05, 50))
@settings(deadline=None, max_examples=60)
def test_the_beta_function_equals_its_integral(x: float, a: float, b: float) -> None:
    found = regularized(np.array([x]), np.array([a]), np.array([b]))[0]
    assert found == pytest.approx(low_risk_over_commitment.cumulative(x, a, b), abs=1e-6)


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_a_narrow_distribution_counts_as_a_point(threshold: float, mean: float) -> None:
    found = probability_below(np.array([threshold]), np.array([mean]), np.array([1e-6]))[0]
    assert found == (mean <= threshold)


@given(BUSY, RESIDENTS, WANTED)
@settings(deadline=None, max_examples=50)
def test_low_risk_over_commitment_scores_match_the_formula(
    measured: list[Measured], residents: list[Resident], wanted: tuple[int, int]
) -> None:
    found = scene_of(measured, residents).judge(LowRiskOverCommitment, wanting(wanted))
    assert measured
    for index, each in enumerate(measured):
        risks = []
        for place in range(2):
            there = sum((other.cores, other.gibs)[place] for other in residents if other.node == index) / 100
            after = there + wanted[place] / 100
            load = low_risk_over_commitment.load_risk(
                there, there, each.mean[place] / 100, deviation(each, place) * 5**0.5
            )
            risks.append(0.5 * low_risk_over_commitment.limit_risk(after, after) + 0.5 * load)
        expected = 100 * (1 - min(max(*risks, 0), 1))
        assert found.scores[f"node-{index}"] == pytest.approx(expected * each.fresh, abs=0.51 * each.fresh)


@given(
    st.lists(st.dictionaries(st.sampled_from(CRANE_METRICS), st.integers(0, 100)), min_size=1, max_size=4),
    RESIDENTS,
)
@settings(deadline=None)
def test_dynamic_load_filters_and_scores_match_the_rules(
    measured: list[dict[str, int]], residents: list[Resident]
) -> None:
    scene = Scene()
    for index, use in enumerate(measured):
        annotations = {metric: encode_crane(CraneReading(value / 100, NOW)) for metric, value in use.items()}
        scene.cache.put_node(node(f"node-{index}", annotations=annotations))
    for number, other in enumerate(residents):
        scene.cache.upsert(pod(f"other-{number}", node_name=f"node-{other.node}", bound_at=other.bound_at))
    spans = {"5m": 0.2, "1h": 0.3, "1d": 0.5}
    weights: dict[str, float] = {metric: spans[metric.rpartition("_")[2]] for metric in CRANE_METRICS}
    limits: dict[str, int] = {
        metric: {"5m": 65, "1h": 75}.get(metric.rpartition("_")[2], 100) for metric in CRANE_METRICS
    }

    found = scene.judge(DynamicLoad, pod())

    for index, use in enumerate(measured):
        bound = [other.bound_at for other in residents if other.node == index]
        parts = {metric: value / 100 for metric, value in use.items()}
        expected = dynamic_load.score(parts, weights, bound, NOW) if any(measured) else 0
        assert found.scores[f"node-{index}"] == expected
        fits = all(value <= limits[metric] for metric, value in use.items())
        assert (f"node-{index}" in found.fitting) is fits


@given(NODES, RESIDENTS, WANTED, st.integers(1, 3))
@settings(deadline=None)
def test_load_aware_filters_and_scores_match_the_rules(
    measured: list[Measured], residents: list[Resident], wanted: tuple[int, int], weight: int
) -> None:
    weights, room = {"cpu": weight, "memory": 1}, {"cpu": 100_000, "memory": 100 * GIB}

    def estimate(cores: int, gibs: int) -> dict[str, int]:
        return {
            "cpu": load_aware.estimate(cores * 1000, 0, 85, 250),
            "memory": load_aware.estimate(gibs * GIB, 0, 70, 200 * 2**20),
        }

    found = scene_of(measured, residents).judge(LoadAware, wanting(wanted), resourceWeights=weights)

    assert measured
    for index, each in enumerate(measured):
        used: dict[str, float] = {
            name: estimate(*wanted)[name] + each.mean[place] / 100 * room[name]
            for place, name in enumerate(("cpu", "memory"))
        }
        for other in residents:
            if other.node == index and other.bound_at > NOW - each.age - 60:
                for name, amount in estimate(other.cores, other.gibs).items():
                    used[name] += amount
        name = f"node-{index}"
        if not each.fresh:
            assert found.scores[name] == 0
            assert name in found.fitting
            continue
        assert (
            abs(found.scores[name] - load_aware.score(used, room, weights)) <= 1
        )  # float errors before rounding down
        thresholds = {"cpu": 65, "memory": 95}
        if all(abs(100 * used[key] / room[key] % 1 - 0.5) > 1e-6 for key in used):
            assert (name in found.fitting) is not load_aware.beyond(used, room, thresholds)


CONSTRAINTS = st.lists(
    st.builds(
        lambda key, limit, required: {
            "topologyKey": key,
            **limit,
            "whenUnsatisfiable": "DoNotSchedule" if required else "ScheduleAnyway",
        },
        st.sampled_from(["zone", "host"]),
        st.builds(lambda most: {"maxPods": most}, st.integers(1, 3))
        | st.builds(lambda most: {"maxPercent": most}, st.integers(1, 100)),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@given(
    st.lists(st.sampled_from(["", "a", "b"]), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=8),
    CONSTRAINTS,
)
@settings(deadline=None)
def test_workload_topology_spread_filters_and_scores_match_the_rules(
    zones: list[str], placed: list[tuple[int, bool]], constraints: list[dict[str, Any]]
) -> None:
    names = [f"node-{index}" for index in range(len(zones))]
    labels = {
        name: {"host": name} | ({"zone": zone} if zone else {})
        for name, zone in zip(names, zones, strict=True)
    }
    scene = Scene(*(node(name, labels=labels[name]) for name in names))
    there = [(number % len(names), ours) for number, ours in placed]
    for number, (where, ours) in enumerate(there):
        owner = "apps/v1/StatefulSet/web" if ours else "apps/v1/StatefulSet/other"
        scene.cache.assume(pod(f"pod-{number}", controller=owner), names[where])
    kin = [names[where] for where, ours in there if ours]
    caps = [workload_topology_spread.cap(each, len(kin) + 1) for each in constraints]

    found = scene.judge(
        WorkloadTopologySpread, pod("web", controller="apps/v1/StatefulSet/web"), constraints=constraints
    )

    for name in names:
        counts = [
            sum(labels[other].get(key) == value for other in kin) if value is not None else None
            for key in (each["topologyKey"] for each in constraints)
            for value in (labels[name].get(key),)
        ]
        hard = [
            index for index, each in enumerate(constraints) if each["whenUnsatisfiable"] == "DoNotSchedule"
        ]
        fits = workload_topology_spread.fits(
            [counts[index] for index in hard], [caps[index] for index in hard]
        )
        assert (name in found.fitting) is fits
        assert floor(found.scores[name]) == floor(workload_topology_spread.score(counts, caps))
