import pytest

from builders import NAMESPACE
from tidelock.cluster.lister import Lister
from tidelock.cluster.workloads import workload_of
from tidelock.model.meta import ObjectMeta, OwnerReference
from tidelock.model.pods import Pod
from tidelock.model.usage_annotations import WorkloadKey
from tidelock.model.workloads import Workload


def meta(name: str, owner: str = "", *, controller: bool = True) -> ObjectMeta:
    """Build the metadata of an object. An owner is written `group/version/kind/name`."""
    references: tuple[OwnerReference, ...] = ()
    if owner:
        api_version, kind, owner_name = owner.rsplit("/", 2)
        references = (OwnerReference(api_version, kind, owner_name, f"uid-{owner_name}", controller),)
    return ObjectMeta(name, NAMESPACE, owner_references=references)


def workload(owner: str, *replica_sets: ObjectMeta, controller: bool = True) -> WorkloadKey | None:
    lister: Lister[Workload] = Lister()
    for each in replica_sets:
        lister.upsert(None, Workload(each))
    return workload_of(Pod(meta("web-1", owner, controller=controller)), lister)


@pytest.mark.parametrize(
    "owner", ["apps/v1/StatefulSet", "apps/v1/DaemonSet", "batch/v1/Job", "apps.kruise.io/v1alpha1/CloneSet"]
)
def test_a_pod_belongs_to_its_controller(owner: str) -> None:
    kind = owner.rpartition("/")[2]
    assert workload(f"{owner}/web") == WorkloadKey(kind, NAMESPACE, "web")


def test_a_pod_of_a_replica_set_belongs_to_its_deployment() -> None:
    replica_set = meta("web-abc", "apps/v1/Deployment/web")
    assert workload("apps/v1/ReplicaSet/web-abc", replica_set) == WorkloadKey("Deployment", NAMESPACE, "web")


@pytest.mark.parametrize("known", [(), (meta("web-abc"),), (meta("web-abc", "argo/v1/Rollout/web"),)])
def test_a_replica_set_that_no_deployment_made_has_no_workload(known: tuple[ObjectMeta, ...]) -> None:
    assert workload("apps/v1/ReplicaSet/web-abc", *known) is None


def test_a_kind_of_another_group_is_no_workload() -> None:
    assert workload("example.com/v1/StatefulSet/web") is None
    assert workload("v1/ReplicaSet/web", meta("web", "apps/v1/Deployment/web")) is None


def test_an_owner_that_is_not_the_controller_is_no_workload() -> None:
    assert workload("apps/v1/StatefulSet/web", controller=False) is None
    assert workload("") is None
