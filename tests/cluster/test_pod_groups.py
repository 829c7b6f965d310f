"""PodGroups on a real API server with the feature gate GenericWorkload.

It needs an API server that serves PodGroups with their feature gate.
"""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from cluster.accelerators import Accelerators, claiming
from cluster.api import Api, Manifest
from cluster.crds import install_crds
from cluster.live import Live, Pod, condition
from cluster.operator_process import OperatorProcess
from cluster.versions import needs
from cluster.world import SCHEDULER, World
from devcluster import LocalCluster, start_cluster
from devcluster.identity import operator_kubeconfig
from tidelock.kube.client import PODGROUPS

pytestmark = needs("1.37", "PodGroups of v1beta1")

GATES = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true")
CONFIGURATION = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": SCHEDULER,
            "plugins": {"multiPoint": {"enabled": [{"name": "GangScheduling"}]}},
        }
    ],
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a bare API server that serves PodGroups."""
    folder = tmp_path_factory.mktemp("groups")
    with start_cluster(folder, apiserver_flags=GATES, controller_manager=False, kwok=False) as made:
        install_crds(made)
        yield made


@pytest.fixture(scope="module")
def operator(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """Run the operator with GangScheduling, and with the rights of the component."""
    folder = tmp_path_factory.mktemp("operator")
    configuration = folder / "scheduler.yaml"
    configuration.write_text(json.dumps(CONFIGURATION))
    kubeconfig = operator_kubeconfig(cluster, folder, "components/pod-groups")
    with OperatorProcess(kubeconfig, folder, f"--config={configuration}") as process:
        yield process
        assert process.stop() == 0
    assert "Traceback" not in process.log
    assert "forbidden: User" not in process.log


@pytest.fixture
def world(cluster: LocalCluster, operator: OperatorProcess) -> Iterator[World]:
    """Yield a world for nodes, pods and groups of this test."""
    with closing(World(Api(cluster.kubeconfig))) as made:
        yield made


def gang(world: World, name: str, min_count: int, **spec: object) -> Live:
    """Create a PodGroup that needs a number of pods at once."""
    manifest = {
        "apiVersion": PODGROUPS.api_version,
        "kind": PODGROUPS.kind,
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, **spec},
    }
    return Live(world.api, PODGROUPS, world.api.create(PODGROUPS.collection(world.namespace), manifest))


def member(world: World, name: str, group: str) -> Pod:
    return world.pod(name, "1", schedulingGroup={"podGroupName": group})


def scheduled(group: Manifest) -> Manifest:
    """Return the group's condition, or an empty one."""
    return condition(group.get("status", {}), "PodGroupInitiallyScheduled")


def test_a_gang_is_bound_as_a_whole_or_not_at_all(world: World) -> None:
    node = world.node("a", cpu="2")
    group = gang(world, "train", 3)
    pods = [member(world, f"train-{number}", "train") for number in range(3)]

    for pod in pods:
        pod.until_refused("Insufficient cpu")
    refused = scheduled(group.until(scheduled, "have its condition"))
    assert (refused["status"], refused["reason"]) == ("False", "Unschedulable")
    assert refused["message"].startswith("minCount (3) cannot be satisfied: 2 scheduled, 0 remaining")
    assert world.taken_cpu(node) == 0

    other = world.pod("other", "2")
    assert other.until_bound() == node.name
    other.delete()
    other.until_gone()
    assert not any("nodeName" in (pod.read() or {})["spec"] for pod in pods)

    second = world.node("b", cpu="1")
    assert sorted(pod.until_bound() for pod in pods) == [node.name, node.name, second.name]
    found = scheduled(group.until(lambda found: scheduled(found).get("status") == "True", "be scheduled"))
    assert found["reason"] == "Scheduled"


def test_a_gang_shares_a_claim_that_has_no_devices_yet(world: World) -> None:
    """Its later pods once waited for the devices of the first one, which waited for them."""
    node = world.node("a", cpu="3")
    world.node("b", cpu="8")
    with closing(Accelerators(world)) as accelerators:
        accelerators.slice(node, "gpu-0")
        claim = accelerators.claim("shared")
        gang(world, "train", 3)
        fields = {**claiming(claim), "schedulingGroup": {"podGroupName": "train"}}
        pods = [world.pod(f"train-{number}", "1", **fields) for number in range(3)]
        assert [pod.until_bound() for pod in pods] == [node.name] * 3
        stored = claim.until(lambda each: len(each["status"].get("reservedFor", ())) == 3, "have its users")
    assert {each["name"] for each in stored["status"]["reservedFor"]} == {pod.name for pod in pods}


def test_pods_wait_for_their_group_and_a_pod_beyond_it_follows_alone(world: World) -> None:
    world.node("a", cpu="3")
    pods = [member(world, f"late-{number}", "late") for number in range(2)]
    alone = world.pod("alone", "1")
    alone.until_bound()
    assert not any("nodeName" in (pod.read() or {})["spec"] for pod in pods)

    gang(world, "late", 2)
    for pod in pods:
        pod.until_bound()
    extra = member(world, "late-2", "late")
    extra.until_refused("Insufficient cpu")
    alone.delete()
    extra.until_bound()


@pytest.mark.parametrize("mode", ["all", "single"])
def test_preemption_evicts_a_group_as_its_disruption_mode_says(world: World, mode: str) -> None:
    world.priority_class("urgent", 1000)
    node, other = (world.node(name, cpu="1", labels={"place": name}) for name in "ab")
    gang(world, "victims", 2, disruptionMode={mode: {}})
    pods = {pod.until_bound(): pod for pod in [member(world, f"victim-{each}", "victims") for each in "ab"]}
    assert set(pods) == {node.name, other.name}

    selector = world.selector | {"place": "a"}
    urgent = world.pod("urgent", "1", priorityClassName="urgent", nodeSelector=selector)
    pods[node.name].until_gone()
    assert urgent.until_bound() == node.name
    if mode == "all":
        pods[other.name].until_gone()
    else:
        assert pods[other.name].read() is not None
