"""Replicas of a workload that wait for a node: whose they are, and for how long they have waited."""

import pytest

from builders import NAMESPACE, NOW, Json, encode, pod_json
from tidelock.cluster.objects import Objects
from tidelock.integrations.karmada.requests import UnschedulableRequest
from tidelock.integrations.karmada.unschedulable import (
    UnknownWorkloadError,
    UnsupportedKindError,
    count_unschedulable,
)
from tidelock.model.instants import format_instant
from tidelock.model.workloads import Workload, decode_workload
from unit.integrations.karmada.pods_api import PodsApi

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


def workload(name: str, *, deployment: str = "", revision: str = "", **labels: str) -> Workload:
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": deployment,
        "uid": "d",
        "controller": True,
    }
    metadata = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": f"uid-{name}",
        "annotations": {"deployment.kubernetes.io/revision": revision} if revision else {},
        "ownerReferences": [owner] if deployment else [],
    }
    return decode_workload(encode({"metadata": metadata, "spec": {"selector": {"matchLabels": labels}}}))


def waiting(
    name: str, owner: str, since: float = NOW - 60, reason: str = "Unschedulable", **more: str
) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    status = {"conditions": [condition | {"lastTransitionTime": format_instant(since)} | more]}
    return pod_json(name, controller=f"apps/v1/{owner}", status=status)


def about(kind: str = "Deployment", name: str = "web", seconds: float = 0.0) -> UnschedulableRequest:
    return UnschedulableRequest("member-1", "apps/v1", kind, NAMESPACE, name, seconds)


@pytest.fixture
def objects() -> Objects:
    made = Objects()
    for each in (
        workload("web-old", deployment="web", revision="9", app="web", hash="old"),
        workload("web-new", deployment="web", revision="10", app="web", hash="new"),
        workload("other", deployment="other", revision="11", app="web"),
        workload("alone", app="alone"),
    ):
        made.replica_sets.upsert(None, each)
    made.stateful_sets.upsert(None, workload("db", app="db"))
    return made


async def test_pods_of_the_newest_replica_set_that_are_not_bound_are_listed(objects: Objects) -> None:
    api = PodsApi(
        waiting("a", "ReplicaSet/web-new"),
        waiting("b", "ReplicaSet/web-new"),
        waiting("c", "ReplicaSet/web-old"),
        pod_json("d"),
    )
    assert await count_unschedulable(api, objects, about(), NOW) == 2
    ((path, params),) = api.asked
    assert path == PODS
    assert (params["fieldSelector"], params["labelSelector"]) == ("spec.nodeName=", "app=web,hash=new")


@pytest.mark.parametrize(("kind", "name"), [("ReplicaSet", "alone"), ("StatefulSet", "db")])
async def test_replica_sets_and_stateful_sets_own_their_pods_themselves(
    objects: Objects, kind: str, name: str
) -> None:
    api = PodsApi(waiting("a", f"{kind}/{name}"))
    assert await count_unschedulable(api, objects, about(kind, name), NOW) == 1


async def test_a_pod_counts_when_its_scheduler_has_refused_it_for_longer_than_the_threshold(
    objects: Objects,
) -> None:
    owner = "ReplicaSet/web-new"
    api = PodsApi(
        waiting("long", owner, NOW - 31),
        waiting("just", owner, NOW - 30),
        waiting("gated", owner, NOW - 90, reason="SchedulingGated"),
        waiting("bound", owner, NOW - 90, status="True"),
        pod_json("new", controller=f"apps/v1/{owner}"),
    )
    assert await count_unschedulable(api, objects, about(seconds=30), NOW) == 1


async def test_an_unknown_workload_and_an_unsupported_kind_are_refused(objects: Objects) -> None:
    api = PodsApi()
    with pytest.raises(UnknownWorkloadError, match=f"^Deployment {NAMESPACE}/none is not known$"):
        await count_unschedulable(api, objects, about(name="none"), NOW)
    for kind, version in (("Job", "apps/v1"), ("Deployment", "example.org/v1")):
        request = UnschedulableRequest("member-1", version, kind, NAMESPACE, "web", 0.0)
        with pytest.raises(UnsupportedKindError, match=f"^{version} {kind} is not supported$"):
            await count_unschedulable(api, objects, request, NOW)
    assert api.asked == []
