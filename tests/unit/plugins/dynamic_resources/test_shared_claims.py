"""Pods of a group share a claim with devices in flight, so a gang can be reserved as a whole.

Source: kube-scheduler 1.37, plugins/dynamicresources (pendingAllocations), and its test/integration/dra.
"""

import asyncio

import numpy as np
import pytest

from builders import pod
from devices import DRIVER, allocated, claiming, device_slice, put
from tidelock.framework.api import FilterResult
from tidelock.kube.errors import AdmissionUnavailable, Forbidden
from tidelock.model.pods import Pod
from tidelock.plugins.dynamic_resources.claim_words import allocated_elsewhere, being_allocated
from tidelock.plugins.dynamic_resources.node_allocations import NOT_AVAILABLE
from unit.plugins.dynamic_resources.cluster import Cluster
from unit.plugins.scene import Judgement

IN_FLIGHT = (being_allocated("shop/shared"),)


def cluster_of(*pods: Pod) -> Cluster:
    """Build a cluster with a claim, two devices on node-a and one on node-b, and pods."""
    cluster = Cluster()
    put(cluster.objects, device_slice("a", "d0", "d1"), device_slice("b", "d2", node_name="node-b"))
    cluster.claim("shared")
    for each in pods:
        cluster.objects.pod_groups.join(each)
    return cluster


def member(name: str, group: str = "train") -> Pod:
    return pod(name, **claiming("shared"), schedulingGroup={"podGroupName": group})


def bind(cluster: Cluster, judged: Judgement) -> str:
    """Write the claims of a pod, and return the problem."""
    return "".join(asyncio.run(cluster.plugin.pre_bind(judged.state, judged.pod, "node-a")).reasons)


def users(cluster: Cluster) -> list[str]:
    return [each["name"] for each in cluster.api.claims["shared"]["status"].get("reservedFor", ())]


def test_a_second_pod_fits_where_the_devices_in_flight_are() -> None:
    first, second = member("p"), member("q")
    cluster = cluster_of(first, second)
    cluster.reserve(first)

    assert cluster.judge(second).fitting == {"node-a"}
    assert cluster.judge(second).reasons("node-b") == (NOT_AVAILABLE,)
    cluster.reserve(second)
    assert cluster.device_of("shared") == "d0"


@pytest.mark.parametrize("other", [member("q", "other"), pod("q", **claiming("shared"))])
def test_a_pod_outside_of_the_group_waits_for_the_devices(other: Pod) -> None:
    first = member("p")
    cluster = cluster_of(first, other)
    cluster.reserve(first)
    assert cluster.judge(other).status.reasons == IN_FLIGHT


def test_the_devices_are_free_once_the_last_pod_has_given_them_back() -> None:
    first, second = member("p"), member("q")
    cluster = cluster_of(first, second)
    judged = [cluster.reserve(first), cluster.reserve(second)]
    in_flight = cluster.objects.resource_claims.in_flight

    cluster.unreserve(judged[0])
    assert len(dict(in_flight.items())) == 1
    cluster.unreserve(judged[1])
    assert dict(in_flight.items()) == {}


def test_one_pod_writes_the_devices_and_each_pod_itself() -> None:
    first, second = member("p"), member("q")
    cluster = cluster_of(first, second)
    judged = [cluster.reserve(first), cluster.reserve(second)]

    assert [bind(cluster, each) for each in judged] == ["", ""]

    assert users(cluster) == ["p", "q"]
    (result,) = cluster.api.claims["shared"]["status"]["allocation"]["devices"]["results"]
    assert result == {"request": "gpu", "driver": DRIVER, "pool": "a", "device": "d0"}
    cluster.show("shared")
    assert dict(cluster.objects.resource_claims.in_flight.items()) == {}


def test_a_pod_is_only_added_to_a_claim_that_has_its_devices() -> None:
    first, second = member("p"), member("q")
    cluster = cluster_of(first, second)
    judged = [cluster.reserve(first), cluster.reserve(second)]
    assert bind(cluster, judged[0]) == ""
    cluster.show("shared")

    assert bind(cluster, judged[1]) == ""
    assert users(cluster) == ["p", "q"]
    cluster.show("shared")
    assert dict(cluster.objects.resource_claims.in_flight.items()) == {}
    assert cluster.judge(pod("r", **claiming("shared"))).fitting == {"node-a"}


def test_the_next_pod_writes_the_devices_if_the_first_one_could_not() -> None:
    first, second = member("p"), member("q")
    cluster = cluster_of(first, second)
    judged = [cluster.reserve(first), cluster.reserve(second)]
    cluster.api.fails(Forbidden("no", status=403))
    with pytest.raises(Forbidden):
        bind(cluster, judged[0])
    cluster.unreserve(judged[0])

    assert bind(cluster, judged[1]) == ""
    assert users(cluster) == ["q"]
    assert cluster.device_of("shared") == "d0"


def test_a_write_that_admission_could_not_judge_is_repeated() -> None:
    only = member("p")
    cluster = cluster_of(only)
    judged = cluster.reserve(only)
    cluster.api.fails(AdmissionUnavailable("not yet ready", status=403))
    assert bind(cluster, judged) == ""
    assert users(cluster) == ["p"]


def test_other_devices_than_decided_are_a_problem() -> None:
    first, second = member("p"), member("q")
    cluster = cluster_of(first, second)
    judged = [cluster.reserve(first), cluster.reserve(second)]
    cluster.change("shared", **allocated("d1", node_name="node-a"))
    assert bind(cluster, judged[0]) == allocated_elsewhere("shop/shared")


def test_a_pod_that_does_not_fit_beside_the_devices_leaves_them_in_flight() -> None:
    """Devices that no claim shows yet can't be deallocated."""
    first, second = member("p"), member("q")
    cluster = cluster_of(first, second)
    cluster.reserve(first)
    judged = cluster.judge(second)
    assert judged.fitting == {"node-a"}

    mask = np.zeros(len(judged.snapshot), np.bool_)  # as other filters rule that node out
    result = FilterResult(mask, (), (cluster.plugin,))
    outcome = cluster.plugin.post_filter(judged.state, second, judged.snapshot, result)
    assert not outcome.status.ok
    assert outcome.status.reasons == ()
