"""WaterLevelBalance over all nodes at once against its rule for one node."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NOW, level, node, pod, pod_use, water_level
from property.oracles import water_level_balance as oracle
from tidelock.cluster.usage.measurements import at_once
from tidelock.framework.decision_time import DecisionTime
from tidelock.model.usage_annotations import NODE_LEVEL, MeasuredUses
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalance
from unit.plugins.scene import Scene

WINDOWS = ("15m", "1h", "1d")
RESOURCES = ("cpu", "memory")
GIB = 2**30


class Resident(NamedTuple):
    node: int
    cores: int
    gibs: int
    bound_at: float | None


class Group(NamedTuple):
    """Nodes of 100 cores and 100 GiB, so that one core or one GiB is one percent."""

    sampled_at: list[float]
    measured: list[oracle.Amounts]
    residents: list[Resident]

    def level(self, index: int) -> oracle.Amounts:
        return {
            window: {
                name: self.measured[index][window][name]
                + sum(
                    (each.cores, each.gibs)[place]
                    * oracle.not_covered(window, each.bound_at, self.sampled_at[index])
                    for each in self.residents
                    if each.node == index
                )
                for place, name in enumerate(RESOURCES)
            }
            for window in WINDOWS
        }

    def scene(self) -> Scene:
        scene = Scene()
        for number, each in enumerate(self.residents):
            name, where = f"other-{number}", f"node-{each.node}"
            requests = {"cpu": str(each.cores), "memory": f"{each.gibs}Gi"}
            if each.bound_at is None:
                scene.cache.assume(pod(name, requests=requests), where)
            else:
                scene.cache.upsert(pod(name, requests=requests, node_name=where, bound_at=each.bound_at))
        for index, (at, measured) in enumerate(zip(self.sampled_at, self.measured, strict=True)):
            windows = {
                window: (float(uses["cpu"]), float(uses["memory"])) for window, uses in measured.items()
            }
            text = level(at=at, windows=windows)
            scene.cache.put_node(
                node(f"node-{index}", cpu="100", memory="100Gi", annotations={NODE_LEVEL: text})
            )
        return scene


PERCENT = st.integers(0, 10_000).map(lambda hundredths: Fraction(hundredths, 100))
MEASURED = st.fixed_dictionaries(
    {window: st.fixed_dictionaries(dict.fromkeys(RESOURCES, PERCENT)) for window in WINDOWS}
)
AGES = st.integers(-1000, 200_000).map(lambda seconds: NOW - seconds)


@st.composite
def groups(draw: st.DrawFn) -> Group:
    count = draw(st.integers(1, 5))
    fresh = st.integers(0, 180).map(lambda age: NOW - age)
    residents = st.builds(
        Resident, st.integers(0, count - 1), st.integers(1, 30), st.integers(1, 30), st.none() | AGES
    )
    return Group(
        draw(st.lists(fresh, min_size=count, max_size=count)),
        draw(st.lists(MEASURED, min_size=count, max_size=count)),
        draw(st.lists(residents, max_size=6)),
    )


WEIGHTS = st.dictionaries(st.sampled_from(WINDOWS), st.integers(1, 9), min_size=1)
SHARES = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 5), min_size=1)
TARGETS = st.one_of(
    st.fixed_dictionaries({"mode": st.just("Static"), "percent": st.integers(0, 100)}),
    st.fixed_dictionaries({"mode": st.just("Dynamic"), "minWeight": st.sampled_from([0, 0.25, 1, 2, 100])}),
)


SCORINGS = st.sampled_from(["ConstantSlopes", "TargetLoadPacking"])
COMBINATIONS = st.sampled_from(["Mean", "Worst", "Scarcity"])


def target_of(target: Mapping[str, Any], levels: list[oracle.Amounts]) -> oracle.Amounts:
    def one(window: str, name: str) -> Fraction:
        if target["mode"] == "Static":
            return Fraction(target["percent"])
        return oracle.dynamic_target([each[window][name] for each in levels], Fraction(target["minWeight"]))

    return {window: {name: one(window, name) for name in RESOURCES} for window in WINDOWS}


@given(groups(), SCORINGS, COMBINATIONS, WEIGHTS, SHARES, TARGETS, st.integers(1, 60), st.integers(1, 60))
@settings(deadline=None)
def test_scores_match_the_formula(
    group: Group,
    scoring: str,
    combination: str,
    weights: dict[str, int],
    shares: dict[str, int],
    target: dict[str, Any],
    cores: int,
    gibs: int,
) -> None:
    levels = [group.level(index) for index in range(len(group.measured))]
    targets = target_of(target, levels)
    wanting = pod("web", requests={"cpu": str(cores), "memory": f"{gibs}Gi"})
    wanted = {"cpu": Fraction(cores), "memory": Fraction(gibs)}

    found = group.scene().judge(
        WaterLevelBalance,
        wanting,
        scoring=scoring,
        combination=combination,
        target=target,
        windows=[{"duration": window, "weight": weight} for window, weight in weights.items()],
        resources=[{"name": name, "weight": weight} for name, weight in shares.items()],
    )

    assert levels
    for index, each in enumerate(levels):
        # The order of sums decides on which side of a jump a float is. Constant slopes have no jumps.
        near_a_jump = scoring == "TargetLoadPacking" and any(
            abs(each[window][name] + wanted[name] - edge) < 1e-6
            for window in weights
            for name in shares
            for edge in (targets[window][name], 100)
        )
        if not near_a_jump:
            expected = oracle.score(scoring, combination, each, levels, targets, wanted, weights, shares)
            assert found.scores[f"node-{index}"] == pytest.approx(float(expected), abs=1e-4)


@given(groups(), st.integers(1, 100), st.integers(1, 100))
@settings(deadline=None)
def test_nodes_are_ruled_out_by_the_shortest_window_that_counts(group: Group, cpu: int, memory: int) -> None:
    def within(levels: Mapping[str, Fraction]) -> bool:
        return levels["cpu"] <= cpu and levels["memory"] <= memory

    levels = [group.level(index)["1h"] for index in range(len(group.measured))]
    found = group.scene().judge(
        WaterLevelBalance,
        pod(),
        windows=[{"duration": "1h", "weight": 1}, {"duration": "1d", "weight": 9}],
        overloadLimits={"cpuPercent": cpu, "memoryPercent": memory},
    )
    assert levels
    for index, each in enumerate(levels):
        if min(abs(each["cpu"] - cpu), abs(each["memory"] - memory)) > 1e-6:
            assert (f"node-{index}" in found.fitting) == within(each)


class Changing:
    """A cluster that changes, with a plugin that has followed it from the beginning."""

    def __init__(self, args: dict[str, Any]) -> None:
        self.scene = Scene()
        self.args = args
        self.now = NOW
        self.seasoned = self.plugin()

    def plugin(self) -> WaterLevelBalance:
        return WaterLevelBalance(self.scene.handle, self.args)

    def put_node(self, number: int, use: int | None, age: int) -> None:
        text = None if use is None else level(use, use, at=self.now - age)
        annotations = {} if text is None else {NODE_LEVEL: text}
        self.scene.cache.put_node(node(f"node-{number}", cpu="100", memory="100Gi", annotations=annotations))

    def drop_node(self, number: int) -> None:
        self.scene.cache.drop_node(f"node-{number}")

    def assume(self, number: int, where: int, cores: int) -> None:
        if self.scene.cache.get(f"uid-pod-{number}") is None:
            self.scene.cache.assume(pod(f"pod-{number}", requests={"cpu": str(cores)}), f"node-{where}")

    def remove(self, number: int) -> None:
        self.scene.cache.remove(f"uid-pod-{number}")

    def measure(self, number: int, cores: int) -> None:
        uses = {f"uid-pod-{number}": pod_use(cores, at=self.now)}
        at_once(self.scene.measurements.take(MeasuredUses(uses, {})))

    def select(self, percent: int) -> None:
        target = {"mode": "Static", "percent": percent}
        self.scene.objects.water_levels.upsert(None, water_level(target=target))

    def select_with_tide(self, percent: int, weight: int, minute: int) -> None:
        """Let a tide begin some minutes after NOW, which is eight o'clock, and last for three minutes."""
        tide = {
            "name": "tide",
            "start": f"{minute} 8 * * *",
            "end": f"{minute + 3} 8 * * *",
            "overloadLimits": {"cpuPercent": percent},
            "weightPercent": weight,
        }
        self.scene.objects.water_levels.upsert(None, water_level(tides=[tide]))

    def wait(self, seconds: int) -> None:
        self.now += seconds

    def ask(self, plugin: WaterLevelBalance | None = None) -> tuple[set[str], dict[str, float]]:
        judged = self.scene.judging(plugin or self.seasoned, pod("web"), DecisionTime(self.now))
        return judged.fitting, judged.scores


MANY = st.integers(0, 4)
CHANGES: st.SearchStrategy[Callable[[Changing], object]] = st.one_of(
    st.builds(
        lambda number, use, age: lambda cluster: cluster.put_node(number, use, age),
        MANY,
        st.none() | st.integers(0, 100),
        st.sampled_from([-500, 0, 100, 180, 500]),
    ),
    st.builds(lambda number: lambda cluster: cluster.drop_node(number), MANY),
    st.builds(
        lambda number, where, cores: lambda cluster: cluster.assume(number, where, cores),
        MANY,
        MANY,
        st.integers(1, 40),
    ),
    st.builds(lambda number: lambda cluster: cluster.remove(number), MANY),
    st.builds(lambda number, cores: lambda cluster: cluster.measure(number, cores), MANY, st.integers(0, 40)),
    st.builds(lambda percent: lambda cluster: cluster.select(percent), st.integers(0, 100)),
    st.builds(
        lambda percent, weight, minute: lambda cluster: cluster.select_with_tide(percent, weight, minute),
        st.integers(1, 100),
        st.sampled_from([0, 40, 100]),
        st.sampled_from([0, 4]),
    ),
    st.builds(lambda seconds: lambda cluster: cluster.wait(seconds), st.sampled_from([1, 100, 200, 400])),
    st.just(lambda cluster: cluster.ask()),
)


@given(
    st.fixed_dictionaries(
        {
            "mode": st.sampled_from(["PodSums", "NodeWindows"]),
            "guard": st.booleans(),
            "scoring": SCORINGS,
            "overloadLimits": st.just({"cpuPercent": 60}),
        }
    ),
    st.lists(CHANGES, max_size=40),
)
@settings(deadline=None)
def test_a_plugin_that_has_followed_all_changes_answers_as_a_new_one(
    args: dict[str, Any], changes: list[Callable[[Changing], object]]
) -> None:
    cluster = Changing(args)
    for change in changes:
        change(cluster)
    (fitting, scores), anew = cluster.ask(), cluster.ask(cluster.plugin())
    assert fitting == anew[0]
    assert scores == pytest.approx(anew[1], abs=1e-5)
