from typing import Any

import pytest

from builders import NOW, node_json, pod, pod_json, reservation
from tidelock.cli.cluster_state import ClusterState, configuration_of
from tidelock.cli.documents import Document
from tidelock.cli.failure import Failure
from tidelock.cli.simulate import SimulatedObjects, screen, shapes_of, simulate_objects
from unit.cli.scenes import active_json, world
from unit.cli.screens import assert_screen


def simulated(*stored: Any, cluster: ClusterState | None = None) -> SimulatedObjects:
    return simulate_objects(cluster or world(), configuration_of(""), stored, NOW)


def small(*pods: Any, reservations: tuple[Any, ...] = ()) -> ClusterState:
    """Return a cluster with one node of 4 cores."""
    return world(nodes=(node_json("a", cpu="4"),), pods=pods, reservations=reservations)


def test_reservations_and_pods_are_decided_in_turn() -> None:
    told = simulated(
        reservation("new", owner="new", resources={"cpu": "1"}),
        pod("new", requests={"cpu": "1"}),
        reservation("huge", resources={"cpu": "16"}),
        reservation("now-or-never", resources={"cpu": "16"}, pendingDeadlineSeconds=0),
        pod("foreign", scheduler="default-scheduler"),
        pod("pinned", node_name="node-d"),
        pod("gated", annotations={"tidelock.dev/require-reservation": "true"}),
        pod("other", requests={"cpu": "2"}),
    )
    assert_screen("simulate", screen(told))


def test_pods_that_already_wait_are_decided_first() -> None:
    waiting = pod_json("earlier", requests={"cpu": "3"})
    told = simulated(reservation("late", resources={"cpu": "2"}), cluster=small(waiting))

    assert [(each.outcome, each.good) for each in told.outcomes] == [("Pending", False)]
    assert told.remarks == ["Pods that already wait for Tidelock, and were decided first: 1."]


def test_evictions_and_preempted_reservations_are_reported() -> None:
    low = pod_json("low", requests={"cpu": "3"}, node_name="a", priority=-10)
    told = simulated(
        pod("high", requests={"cpu": "4"}, priority=10, uid="high"),
        cluster=small(low, reservations=(active_json("batch", "a", cpu="1"),)),
    )

    assert told.outcomes[0].outcome == "waits for evictions on a"
    assert not told.outcomes[0].good
    assert told.remarks == [
        "pod shop/low would be evicted from a for pod shop/high.",
        "reservation shop/batch would be Pending: preempted on a by pod shop/high.",
    ]


def test_an_edit_of_a_reservation_is_simulated() -> None:
    cluster = small(reservations=(active_json("batch", "a", cpu="2"),))
    larger = reservation("batch", resources={"cpu": "3"}, generation=2, version=1, nodeName="a")
    told = simulated(larger, pod("rest", requests={"cpu": "2"}), cluster=cluster)

    assert [(each.outcome, each.node) for each in told.outcomes] == [("Active", "a"), ("no capacity", "")]


def test_a_pod_consumes_the_reservation_that_names_it_as_owner() -> None:
    told = simulated(
        pod("other", requests={"cpu": "2"}), cluster=small(reservations=(active_json("batch", "a", cpu="4"),))
    )
    assert [(each.outcome, each.why) for each in told.outcomes] == [
        ("bound", "takes the capacity of shop/batch")
    ]
    assert told.remarks == ["reservation shop/batch would be Consumed: pod shop/other is bound to a."]


def deployment(replicas: object = 3, **body: Any) -> Document:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main"}]}}
    plain = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": replicas, "template": template},
    }
    return Document("file: document 1 (Deployment/web)", plain | body)


def test_a_deployment_creates_pods_as_its_replica_set_would() -> None:
    (shape,) = shapes_of(deployment())
    metadata = shape.body["metadata"]

    assert shape.count == 3
    assert shape.body["kind"] == "Pod"
    assert (metadata["namespace"], metadata["labels"]["app"]) == ("shop", "web")
    assert (metadata["ownerReferences"][0]["kind"], metadata["ownerReferences"][0]["name"]) == (
        "ReplicaSet",
        "web-simulated",
    )


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (deployment(replicas=-1), "spec.replicas: -1: should be 0 to 1000"),
        (deployment(replicas="3"), "spec.replicas: '3': should be 0 to 1000"),
        (deployment(spec={}), "spec.template: should be a pod template"),
    ],
)
def test_unsupported_objects_are_refused(document: Document, told: str) -> None:
    with pytest.raises(Failure, match=told):
        shapes_of(document)
