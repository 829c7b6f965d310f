from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

from tidelock.model.meta import Key
from tidelock.simulation.recording import PodIdentity, RecordedPod, Recording, recorded_world
from tidelock.simulation.traces import TraceError
from tidelock.simulation.world import Floats

STEPS = 6
GIBI = 2**30


def amounts(cpu: float, memory: float, pods: float = 110, absent: int = 0) -> dict[str, Floats]:
    """Return the allocatable amounts of a node that is absent in the first steps."""
    rows = {"cpu": cpu, "memory": memory, "pods": pods}
    return {name: np.array([nan] * absent + [value] * (STEPS - absent)) for name, value in rows.items()}


def recorded(**pods: RecordedPod) -> Recording:
    """Return a recording of two nodes. Each pod uses a core and a gibibyte, and requests half of it."""
    recording = Recording("past", start=1000.0, step=300.0, steps=STEPS)
    recording.nodes = {name: amounts(4, 8 * GIBI) for name in ("node-a", "node-b")}
    for name, pod in pods.items():
        key = Key("shop", name)
        recording.pods[PodIdentity("shop", name, f"uid-{name}")] = pod
        recording.requests[key] = {"cpu": 0.5, "memory": GIBI / 2}
        recording.cpu[key] = np.array(
            [1.0 if pod.first <= step <= pod.last else nan for step in range(STEPS)]
        )
        recording.memory[key] = float(GIBI)
    return recording


def web(node: str = "node-a", first: int = 0, last: int = STEPS - 1) -> RecordedPod:
    return RecordedPod(node, "ReplicaSet", "web-1", first, last)


def test_pods_of_a_deployment_are_one_workload_on_the_nodes_of_the_past() -> None:
    recording = recorded(a=web(), b=web("node-b"), c=replace(web(), owner="web-2"))
    recording.deployments = {Key("shop", "web-1"): "web", Key("shop", "web-2"): "web"}
    recording.limits[Key("shop", "a")] = recording.limits[Key("shop", "b")] = {"cpu": 2.0}

    past = recorded_world(recording)

    assert past.steady
    assert past.remarks == []
    assert [machine.name for machine in past.world.machines] == ["node-a", "node-b"]
    assert past.rows.tolist() == [0, 1, 0]
    assert past.world.workload.tolist() == [0, 0, 1]  # c has no limit
    assert [each.cpu_limit for each in past.world.workloads] == [2000, 0]
    assert (past.world.step, past.world.steps) == (300.0, STEPS)
    assert past.as_it_was().cpu[:, 0].tolist() == pytest.approx([50.0] * STEPS)
    assert past.as_it_was().cpu[:, 1].tolist() == pytest.approx([25.0] * STEPS)


def test_a_pod_arrives_when_it_was_created_and_ends_after_its_last_sample() -> None:
    recording = recorded(b=web(first=2, last=3), c=web(first=1, last=4), a=web())
    created = {"a": 10.0, "b": 1000.0 + 2 * 300 + 20}
    recording.created = {PodIdentity("shop", name, f"uid-{name}"): at for name, at in created.items()}

    world = recorded_world(recording).world

    assert world.arrives.tolist() == [1.5 * 300, 0.0, 620.0]  # of c, which is unknown, then in their order
    assert world.lives.tolist() == [5 * 300 - 1.5 * 300, inf, 4 * 300 - 620]


def test_gaps_and_the_first_minutes_of_a_pod_have_the_use_beside_them() -> None:
    recording = recorded(a=web(), b=web(first=1, last=4))
    recording.cpu[Key("shop", "b")] = np.array([9.0, 0.1, 1.0, nan, 2.0, 9.0])

    world = recorded_world(recording).world

    assert world.cpu[1].tolist() == [1000.0, 1000.0, 1000.0, 1000.0, 2000.0, 2000.0]


def test_a_pod_that_was_never_measured_has_the_use_of_its_workload_or_is_left_out() -> None:
    recording = recorded(a=web(), b=web("node-b"), c=replace(web(), owner="db"))
    for name in "bc":
        del recording.cpu[Key("shop", name)], recording.memory[Key("shop", name)]

    past = recorded_world(recording)

    assert past.world.cpu[:, 0].tolist() == [1000.0, 1000.0]
    assert past.world.memory.tolist() == [GIBI, GIBI]
    assert past.remarks == ["Left out, as no pod of their workload was measured: 1 pods."]


def test_unmeasured_memory_is_that_of_the_request() -> None:
    recording = recorded(a=web())
    recording.memory.clear()

    assert recorded_world(recording).world.memory.tolist() == [GIBI / 2]


def test_pods_without_a_choice_make_their_node_smaller() -> None:
    agent = RecordedPod("node-a", "DaemonSet", "agent", 0, STEPS - 1)
    past = recorded_world(recorded(a=web(), b=web("node-b"), c=agent, d=replace(agent, kind="Node")))

    assert past.world.pods == 2
    assert [(each.cpu, each.memory, each.pods) for each in past.world.machines] == [
        (3000, 7 * GIBI, 108),
        (4000, 8 * GIBI, 110),
    ]


def test_nodes_without_pods_that_choose_are_left_out() -> None:
    recording = recorded(a=web())

    assert [machine.name for machine in recorded_world(recording).world.machines] == ["node-a"]


def test_the_nodes_are_those_of_the_instant_with_the_most_cpu() -> None:
    recording = recorded(a=web(), b=web("node-b", first=3))
    recording.nodes["node-b"] = amounts(16, GIBI, absent=3)

    past = recorded_world(recording)

    assert [machine.name for machine in past.world.machines] == ["node-a", "node-b"]
    assert not past.steady
    assert past.remarks == ["Nodes came and went, so there is no row for the placement as it was."]


def test_a_world_begins_with_its_first_pod() -> None:
    world = recorded_world(recorded(a=web(first=2), b=web(first=3))).world

    assert world.steps == STEPS - 2
    assert world.arrives.tolist() == [0.0, 450.0]


@pytest.mark.parametrize("missing", ["nodes", "pods", "cpu"])
def test_nothing_to_play_is_refused(missing: str) -> None:
    recording = recorded(a=web())
    getattr(recording, missing).clear()

    with pytest.raises(TraceError, match=r"^past: has no node, or no measured pod"):
        recorded_world(recording)


def test_nodes_without_amounts_are_refused() -> None:
    recording = recorded(a=web("elsewhere"))

    with pytest.raises(TraceError, match=r"^past: no node has both allocatable cpu"):
        recorded_world(recording)
