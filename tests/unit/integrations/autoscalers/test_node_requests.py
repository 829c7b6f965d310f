"""Which reservations and pods ask for nodes, and beside which nodes."""

from typing import Any

import pytest

from builders import NAMESPACE, node, pod, quota
from isolating import Isolating
from tidelock.integrations.autoscalers.node_requests import NodeRequest, NodeRequests
from tidelock.integrations.autoscalers.placeholder_pods import HOSTNAME
from tidelock.model.api.reservation import Phase
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.gang import Gang
from unit.scheduler.machinery import Core

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class Cluster(Core):
    """A scheduler, and the nodes that it asks for."""

    def __init__(self, *nodes: Any, **fields: Any) -> None:
        super().__init__(*nodes)
        self.allow(autoscaling="RequestNodes", **fields)
        self.isolation = Isolating()
        self.requests = NodeRequests(self.decider, self.isolation)

    def allow(self, **fields: Any) -> None:
        quotas = self.decider.objects.reservation_quotas
        quotas.upsert(quotas.get("team", NAMESPACE), quota(**fields))

    def ask(self) -> list[NodeRequest]:
        """Decide everything that is due, and return the requests."""
        self.decide()
        found: dict[Any, NodeRequest] = {}
        for _ in self.requests.collect(self.clock.now(), found):
            pass
        return list(found.values())


def excluded(request: NodeRequest) -> list[str]:
    """Return the hosts beside which a request asks for room."""
    affinity = request.template["spec"].get("affinity")
    if affinity is None:
        return []
    (term,) = affinity["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    (expression,) = term["matchExpressions"]
    assert (expression["key"], expression["operator"]) == (HOSTNAME, "NotIn")
    values: list[str] = expression["values"]
    return values


def test_a_reservation_that_fits_nowhere_asks_until_it_has_capacity() -> None:
    cluster = Cluster(node("node-a", cpu="1"))
    waiting = cluster.reservation(resources={"cpu": "2"}, pendingDeadlineSeconds=600)
    (request,) = cluster.ask()
    assert request.replicas == 1
    assert request.template["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert excluded(request) == []

    cluster.event_handlers.nodes.upsert(None, node("node-b", cpu="4"))
    assert cluster.ask() == []
    assert (waiting.phase, waiting.node) == (Phase.ACTIVE, "node-b")


def test_a_new_node_goes_to_the_reservation_that_asked_in_the_step_that_sees_it() -> None:
    """A pod that waits too, and would fit, is decided afterwards."""
    cluster = Cluster(node("node-a", cpu="1"))
    waiting = cluster.reservation(owner="other", resources={"cpu": "4"}, pendingDeadlineSeconds=600)
    cluster.add(pod(requests={"cpu": "4"}))
    assert len(cluster.ask()) == 1
    cluster.event_handlers.nodes.upsert(None, node("node-b", cpu="4"))
    outcome = cluster.step()
    assert (waiting.phase, waiting.node) == (Phase.ACTIVE, "node-b")
    assert not isinstance(outcome, AssumedPod)


def test_nodes_that_only_reservations_make_full_are_excluded_by_their_hostname() -> None:
    cluster = Cluster(
        node("node-a", cpu="4", labels={HOSTNAME: "host-a"}),
        node("node-b", cpu="4"),
        node("node-c", cpu="1"),
    )
    for name in ("first", "second"):
        cluster.reservation(name, owner=name, resources={"cpu": "3"})
    cluster.decide()
    cluster.reservation("third", owner="third", resources={"cpu": "2"}, pendingDeadlineSeconds=600)
    (request,) = cluster.ask()
    assert excluded(request) == ["host-a", "node-b"]


def test_a_host_stays_excluded_while_it_holds_reservations() -> None:
    cluster = Cluster(node("node-a", cpu="4"))
    held = cluster.reservation("held", owner="held", resources={"cpu": "1"})
    cluster.decide()
    cluster.reservation("large", owner="large", resources={"cpu": "4"}, pendingDeadlineSeconds=600)
    (request,) = cluster.ask()
    assert excluded(request) == ["node-a"]
    cluster.add(pod("resident", requests={"cpu": "2"}, node_name="node-a"))
    (request,) = cluster.ask()
    assert excluded(request) == ["node-a"]
    cluster.event_handlers.reservations.remove(held.reservation)
    (request,) = cluster.ask()
    assert excluded(request) == []


def test_equal_reservations_share_a_request() -> None:
    cluster = Cluster(node("node-a", cpu="1"))
    for name in ("first", "second"):
        cluster.reservation(name, owner=name, resources={"cpu": "2"}, pendingDeadlineSeconds=600)
    cluster.reservation("third", owner="third", resources={"cpu": "3"}, pendingDeadlineSeconds=600)
    assert sorted(request.replicas for request in cluster.ask()) == [1, 2]


def test_reservations_together_ask_for_no_more_than_their_quota_allows() -> None:
    cluster = Cluster(node("node-a", cpu="1"), hard={"cpu": "5"})
    for name in ("first", "second", "third"):
        cluster.reservation(name, owner=name, resources={"cpu": "2"}, pendingDeadlineSeconds=600)
    (request,) = cluster.ask()
    assert request.replicas == 2


def test_a_group_asks_for_all_its_members_though_one_of_them_fits() -> None:
    """The autoscaler counts the node that fits for one member. Such a group never asked before."""
    cluster = Cluster(node("node-a", cpu="2"))
    gang = Gang(cluster, 2).come(resources={"cpu": "2"}, pendingDeadlineSeconds=600)
    (request,) = cluster.ask()
    assert (request.replicas, excluded(request)) == (2, [])
    cluster.event_handlers.nodes.upsert(None, node("node-b", cpu="2"))
    assert cluster.ask() == []
    assert gang.phases == [Phase.ACTIVE] * 2


@pytest.mark.parametrize("autoscaling", ["KeepNodes", None])
def test_without_the_permission_of_a_quota_no_reservation_asks(autoscaling: str | None) -> None:
    cluster = Cluster(node("node-a", cpu="1"))
    cluster.allow(weight=1, autoscaling=autoscaling)
    cluster.reservation(resources={"cpu": "2"}, pendingDeadlineSeconds=600)
    assert cluster.ask() == []


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "node-a"},
        {"startAt": "2027-01-15T09:00:00Z", "expireAt": "2027-01-15T10:00:00Z", "ttlSeconds": None},
    ],
)
def test_a_reservation_for_one_node_or_for_later_does_not_ask(spec: dict[str, Any]) -> None:
    cluster = Cluster(node("node-a", cpu="1"))
    entry = cluster.reservation(resources={"cpu": "2"}, pendingDeadlineSeconds=600, **spec)
    assert cluster.ask() == []
    assert entry.phase is Phase.PENDING


def test_one_alternative_of_a_set_asks() -> None:
    cluster = Cluster(node("node-a", cpu="1"))
    for name, cpu in (("small", "2"), ("large", "3")):
        cluster.reservation(name, anyOf="either", resources={"cpu": cpu}, pendingDeadlineSeconds=600)
    (request,) = cluster.ask()
    assert request.replicas == 1


def test_a_pod_that_only_a_reservation_keeps_from_a_node_asks_until_it_is_placed() -> None:
    cluster = Cluster(node("node-a", cpu="4"))
    cluster.allow(weight=1)
    cluster.reservation(owner="other", resources={"cpu": "3"})
    cluster.decide()
    cluster.add(pod(requests={"cpu": "2"}))
    (request,) = cluster.ask()
    assert (request.replicas, excluded(request)) == (1, ["node-a"])
    cluster.wake()  # it is tried again, and is in another part of the queue meanwhile
    (request,) = cluster.ask()
    cluster.event_handlers.nodes.upsert(None, node("node-b", cpu="4"))
    assert cluster.ask() == []


def test_a_request_is_outdated_as_soon_as_its_pod_or_reservation_has_a_node() -> None:
    cluster = Cluster(node("node-a", cpu="4"))
    cluster.reservation(owner="other", resources={"cpu": "3"})
    cluster.decide()
    cluster.add(pod(requests={"cpu": "2"}))
    cluster.reservation("late", owner="late", resources={"cpu": "3"}, pendingDeadlineSeconds=600)
    assert len(cluster.ask()) == 2
    assert not cluster.requests.outdated
    cluster.event_handlers.nodes.upsert(None, node("node-b", cpu="3"))
    cluster.decide()
    assert cluster.requests.outdated
    assert len(cluster.ask()) == 1  # of the pod
    assert not cluster.requests.outdated
    cluster.event_handlers.nodes.upsert(None, node("node-c", cpu="2"))
    cluster.clock.advance(60)
    (placed,) = cluster.decide()
    assert isinstance(placed, AssumedPod)
    assert cluster.requests.outdated
    assert cluster.ask() == []


def test_a_pod_that_fits_nowhere_without_reservations_either_does_not_ask() -> None:
    """The autoscaler adds a node for the pod itself. A buffer would be a second node."""
    cluster = Cluster(node("node-a", cpu="4"))
    cluster.reservation(owner="other", resources={"cpu": "3"})
    cluster.decide()
    cluster.add(pod(requests={"cpu": "5"}))
    assert cluster.ask() == []


def test_a_pod_of_a_daemon_set_does_not_ask() -> None:
    cluster = Cluster(node("node-a", cpu="4"))
    cluster.reservation(owner="other", resources={"cpu": "3"})
    cluster.decide()
    cluster.add(pod(requests={"cpu": "2"}, controller="apps/v1/DaemonSet/agent"))
    assert cluster.ask() == []


def test_a_fault_of_a_plugin_costs_the_request_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(node("node-a", cpu="1"))
    cluster.reservation(resources={"cpu": "2"}, pendingDeadlineSeconds=600)
    cluster.decide()
    monkeypatch.setattr(
        "tidelock.integrations.autoscalers.node_requests._ruled_out_by_reservations", lambda *_: 1 / 0
    )
    assert cluster.ask() == []
    assert len(cluster.isolation.faults) == 1
    assert cluster.ask() == []
    assert len(cluster.isolation.faults) == 1
    monkeypatch.undo()
    cluster.clock.advance(60)
    assert len(cluster.ask()) == 1
