from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from builders import NOW, SCHEDULER, level, node, pod
from cycles import pod_cycle
from devices import claiming, resource_claim
from tidelock.framework.api import SUCCESS, Code, Handle, Reserve, Status
from tidelock.framework.config import Configuration
from tidelock.framework.profile import Enabled, ProfileSettings
from tidelock.model.api.reservation import Phase
from tidelock.model.nodes import Node
from tidelock.model.quantities import CPU, MEMORY, PODS
from tidelock.model.usage_annotations import NODE_LEVEL
from tidelock.plugins.default_preemption.plugin import PREEMPTION_NOT_HELPFUL
from tidelock.plugins.node_affinity import NODE_AFFINITY_ELSEWHERE, NODE_AFFINITY_MISMATCH
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.plugins.node_unschedulable import NodeUnschedulable
from tidelock.plugins.registry import BUILTINS
from tidelock.plugins.reservation.plugin import insufficient_beside
from tidelock.plugins.taint_toleration import TaintToleration
from tidelock.scheduler.core.diagnosis import NO_NODES, Diagnosis
from tidelock.scheduler.core.outcomes import Unschedulable
from unit.scheduler.machinery import Core


@pytest.mark.parametrize(
    ("nodes", "wanted", "text"),
    [
        ([], {}, NO_NODES),
        (
            [node("node-a", cpu="4"), node("node-b", cpu="2", memory="1Gi")],
            {"requests": {"cpu": "5", "memory": "2Gi"}},
            (
                f"0/2 nodes are available: 1 {insufficient(MEMORY)}, 2 {insufficient(CPU)}. "
                "node-a: cpu 5 needed, 4 free; node-b: cpu 5 needed, 2 free, memory 2Gi needed, 1Gi free."
            ),
        ),
        (
            [
                node("node-a", cordoned=True),
                node("node-b", taints=["dedicated=db:NoSchedule"]),
                node("node-c"),
            ],
            {"requests": {"cpu": "5"}},
            (
                f"0/3 nodes are available: 1 {insufficient(CPU)}, 1 {TaintToleration.reason}, "
                f"1 {NodeUnschedulable.reason}. node-c: cpu 5 needed, 4 free; "
                "node-b: taint dedicated=db:NoSchedule."
            ),
        ),
        (
            [node("node-a")],
            {"nodeSelector": {"disk": "ssd"}},
            f"0/1 nodes are available: 1 {NODE_AFFINITY_MISMATCH}.",
        ),
        (
            [node("node-a", pods="0")],
            {},
            f"0/1 nodes are available: 1 {insufficient(PODS)}. node-a: pods 1 needed, 0 free.",
        ),
    ],
    ids=["no nodes", "numbers", "several reasons", "no numbers", "pods"],
)
def test_a_refusal_counts_the_reasons_and_has_the_numbers(
    nodes: Iterable[Node], wanted: dict[str, Any], text: str
) -> None:
    core = Core(*nodes)
    core.add(pod(**wanted))

    assert without_preemption(core.refuse()) == text


def test_a_refusal_names_the_reservation_that_holds_the_capacity() -> None:
    core = Core(node("node-a", cpu="4"))
    core.reservation(resources={"cpu": "3"}, owner="db-0")
    core.add(pod(requests={"cpu": "2"}))

    assert without_preemption(core.refuse()) == (
        f"0/1 nodes are available: 1 {insufficient_beside(CPU)}. "
        "node-a: cpu 2 needed, 1 free, 3 reserved by shop/lock."
    )


def test_nodes_that_the_pod_does_not_name_are_excluded_before_any_filter() -> None:
    core = Core(node("node-a", cpu="1"), node("node-b", cordoned=True), node("node-c"))
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named]}}
    core.add(pod(requests={"cpu": "2"}, affinity={"nodeAffinity": required}))

    assert core.refuse().diagnosis.message == (
        f"0/3 nodes are available: 1 {insufficient(CPU)}, 2 {NODE_AFFINITY_ELSEWHERE}. "
        "node-a: cpu 2 needed, 1 free. "
        f"preemption: 0/3 nodes are available: 3 {PREEMPTION_NOT_HELPFUL}."
    )


def test_a_refusal_has_the_numbers_of_at_most_three_nodes() -> None:
    core = Core(*(node(f"node-{index}", cpu="1") for index in range(9, 0, -1)))
    core.add(pod(requests={"cpu": "2"}))

    message = core.refuse().diagnosis.message

    assert message.startswith(f"0/9 nodes are available: 9 {insufficient(CPU)}. node-1: ")
    assert message.count("needed") == 3


def test_a_pod_whose_claim_has_an_unknown_class_is_refused_before_any_node_is_filtered() -> None:
    core = Core(node("node-a"))
    core.decider.objects.resource_claims.upsert(None, resource_claim())
    core.add(pod(**claiming("gpu")))

    assert core.refuse().diagnosis == Diagnosis(
        "0/1 nodes are available: request gpu: device class gpu does not exist. "
        f"preemption: 0/1 nodes are available: 1 {PREEMPTION_NOT_HELPFUL}.",
        frozenset({"DynamicResources"}),
    )


def test_a_placed_pod_uses_its_capacity_at_once() -> None:
    core = Core(node("node-a", cpu="4"))
    core.add(pod("web-0", requests={"cpu": "3"}), pod("web-1", requests={"cpu": "3"}))

    assert core.place().node_name == "node-a"
    assert core.used() == 3000
    assert "cpu 3 needed, 1 free" in core.refuse().diagnosis.message


def test_among_equal_nodes_the_first_name_wins() -> None:
    core = Core(node("node-c"), node("node-a"), node("node-b"))
    core.add(pod())

    assert core.place().node_name == "node-a"


@pytest.mark.parametrize(
    ("use", "args"),
    [
        (None, {}),
        (100.0, {"scoring": "TargetLoadPacking"}),
        (30.0, {"scoring": "TargetLoadPacking", "target": {"mode": "Static", "percent": 0}}),
    ],
    ids=["nothing is measured", "all nodes are full", "a target of 0"],
)
def test_pods_are_spread_if_all_nodes_have_the_same_score(use: float | None, args: dict[str, Any]) -> None:
    """Regression: a profile that does not score requests put all pods on the first node until it was full."""
    annotations = {} if use is None else {NODE_LEVEL: level(use, use)}
    names = ("node-a", "node-b", "node-c")
    plugins = ("PrioritySort", "WaterLevelBalance", "DefaultBinder")
    profile = ProfileSettings(SCHEDULER, tuple(map(Enabled, plugins)), args={"WaterLevelBalance": args})
    core = Core(
        *(node(name, annotations=annotations) for name in names),
        configuration=Configuration(profiles=(profile,), registry=BUILTINS.registry),
    )
    core.add(*(pod(f"web-{number}") for number in range(6)))

    assert sorted(core.place().node_name for _ in range(6)) == sorted(names * 2)


def test_a_score_that_depends_on_other_nodes_is_computed_again_for_an_equal_pod() -> None:
    zones = dict(zip("abcdefgh", "xyyyyyyz", strict=True))  # so many that few change between two decisions
    core = Core(*(node(name, labels={"zone": zone}) for name, zone in zones.items()))
    core.add(pod("busy", node_name="h"))
    apart = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}}
    rule = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": apart}]}
    for number in range(3):
        core.add(pod(f"web-{number}", labels={"app": "web"}, affinity={"podAntiAffinity": rule}))

    assert [core.place().node_name for _ in range(3)] == ["a", "b", "h"]


def test_an_emptier_node_wins_over_a_first_name() -> None:
    core = Core(node("node-a", cpu="4"), node("node-b", cpu="64"))
    core.add(pod(requests={"cpu": "2"}))

    assert core.place().node_name == "node-b"


def test_an_owner_prefers_the_node_of_its_reservation() -> None:
    core = Core(node("node-a", cpu="64", memory="256Gi"), node("node-b", cpu="2"))
    entry = core.reservation(nodeName="node-b", resources={"cpu": "2"})
    core.add(pod(requests={"cpu": "2"}))

    assert core.place().node_name == "node-b"
    assert (entry.phase, core.reserved("node-b")) == (Phase.BOUND, 0)


def test_an_owner_on_another_node_claims_its_reservation_and_frees_it_once_bound() -> None:
    core = Core(node("node-a", cpu="8"), node("node-b", cpu="2"))
    entry = core.reservation(nodeName="node-b", resources={"cpu": "2"})
    core.add(pod(requests={"cpu": "6"}))

    assumed = core.place()
    assert assumed.node_name == "node-a"
    assert (entry.phase, core.reserved("node-b")) == (Phase.BOUND, 2000)

    core.decider.bound(assumed, NOW)

    assert (entry.phase, core.reserved("node-b")) == (Phase.CONSUMED, 0)


def test_undoing_a_placement_returns_the_capacity_and_the_reservation() -> None:
    core = Core(node("node-a", cpu="4"))
    entry = core.reservation(resources={"cpu": "2"})
    core.add(pod(requests={"cpu": "2"}))
    assumed = core.place()

    core.decider.binding_failed(assumed, NOW)

    assert (core.used(), core.reserved(), entry.phase) == (0, 2000, Phase.ACTIVE)


def test_a_reservation_has_its_capacity_back_at_once_if_its_owner_goes_during_its_binding() -> None:
    """Regression: the capacity was free for any pod, the successor included, until the binding had failed."""
    core = Core(node("node-a", cpu="4"))
    entry = core.reservation(resources={"cpu": "3"})
    core.add(owner := pod(requests={"cpu": "3"}))
    assumed = core.place()
    core.add(pod("other", requests={"cpu": "3"}))

    core.event_handlers.pods.remove(owner)

    assert (core.used(), core.reserved(), entry.phase) == (0, 3000, Phase.ACTIVE)
    core.refuse()
    core.decider.binding_failed(assumed, NOW)
    assert (core.used(), core.reserved(), entry.phase) == (0, 3000, Phase.ACTIVE)


def test_a_pod_that_was_bound_despite_an_error_is_not_undone() -> None:
    """The response to the binding was an error, but the watch has reported the pod on its node."""
    core = Core(node("node-a", cpu="4"))
    entry = core.reservation(resources={"cpu": "2"})
    core.add(pod(requests={"cpu": "2"}))
    assumed = core.place()
    core.add(pod(requests={"cpu": "2"}, node_name="node-a", version=2))

    core.decider.binding_failed(assumed, NOW)
    assert (core.used(), core.reserved(), entry.phase) == (2000, 0, Phase.CONSUMED)
    assert core.step() is None


class Noting(Reserve):
    """A Reserve plugin that notes its calls and gives a fixed answer."""

    def __init__(self, handle: Handle, name: str, notes: list[str], answer: Status = SUCCESS) -> None:
        super().__init__(handle, {})
        self.label = name
        self.notes = notes
        self.answer = answer

    name = "Noting"

    def reserve(self, *_: object, **__: object) -> Status:
        self.notes.append(f"reserve {self.label}")
        return self.answer

    def unreserve(self, *_: object, **__: object) -> None:
        self.notes.append(f"unreserve {self.label}")


def test_if_one_plugin_refuses_to_reserve_unreserve_is_called_in_reverse_order() -> None:
    core, notes = Core(node("node-a")), list[str]()
    handle = Handle(core.ledger.plugin_view, core.decider.cache)
    diagnosis = Status(Code.UNSCHEDULABLE, ("no volume", "no port"))
    plugins = (
        Noting(handle, "first", notes),
        Noting(handle, "second", notes, diagnosis),
        Noting(handle, "third", notes),
    )
    profile = replace(core.decider.profile, reserve=plugins)

    outcome = pod_cycle(core.cache, core.ledger).schedule(profile, pod(), NOW)

    message = "0/1 nodes are available: 1 no port, 1 no volume."
    assert outcome == Diagnosis(message, frozenset({"Noting"}))
    assert notes == [
        "reserve first",
        "reserve second",
        "unreserve third",
        "unreserve second",
        "unreserve first",
    ]
    assert core.used() == 0


def without_preemption(outcome: Unschedulable) -> str:
    """Return the message of a refusal without the part on preemption."""
    return outcome.diagnosis.message.partition(" preemption: ")[0]
