"""The operator's ClusterRole, which has exactly the rights that the operator uses.

It needs an API server that authorizes each request of the operator by its role.
"""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from cluster.accelerators import Accelerators, claiming
from cluster.api import Api, Manifest
from cluster.crds import SAMPLES, install_crds
from cluster.disks import Disks, using
from cluster.live import Pod, condition
from cluster.operator_process import OperatorProcess
from cluster.relay import Record, Right, relay, through
from cluster.versions import EXTENDED_RESOURCES, runs
from cluster.water_level import NODE_COUNTER, POD_COUNTER, until_rated, water_level
from cluster.workloads import install_clone_sets, make_workloads
from cluster.world import World
from devcluster import Cluster, LocalCluster, wait_for
from devcluster.build import NEWEST
from devcluster.identity import operator_kubeconfig, rendered
from devcluster.prometheus import PrometheusServer
from replay.exporter import Exporter
from tidelock.kube.client import EVENTS, WATERLEVELS, ApiResource
from tidelock.kube.config import load_connection
from tidelock.model.pods import BORROWS
from tidelock.model.usage_annotations import NODE_LEVEL, POD_USAGE

REVIEWS = ApiResource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
BIND = Right("create", "pods/binding")
ALLOCATE = Right("patch", "resourceclaims.resource.k8s.io/status")
# The API server asks its authorizer about it. It is never requested.
UNREQUESTED = {Right("patch", "resourceclaims.resource.k8s.io/binding")}
_CLAIMS_OF_EXTENDED_RESOURCES = {
    Right(verb, "resourceclaims.resource.k8s.io") for verb in ("get", "create", "patch", "delete")
}
# Verbs on (group, resource) with which a stolen token could do harm.
FORBIDDEN = [
    ("get", "", "secrets"),
    ("list", "", "secrets"),
    ("get", "", "configmaps"),
    ("list", "coordination.k8s.io", "leases"),
    ("update", "coordination.k8s.io", "leases"),
    ("create", "", "pods"),
    ("update", "", "pods"),
    ("patch", "", "pods"),
    ("deletecollection", "", "pods"),
    ("create", "", "pods/exec"),
    ("patch", "", "pods/ephemeralcontainers"),
    ("update", "", "pods/status"),
    ("create", "", "persistentvolumes"),
    ("update", "", "persistentvolumes"),
    ("delete", "", "persistentvolumes"),
    ("delete", "", "persistentvolumeclaims"),
    ("patch", "", "persistentvolumeclaims/status"),
    ("update", "", "nodes"),
    ("patch", "", "nodes/status"),
    ("update", "apps", "deployments"),
    ("delete", "apps", "deployments"),
    ("patch", "apps", "deployments/scale"),
    ("patch", "apps", "replicasets"),
    ("create", "batch", "jobs"),
    ("patch", "batch", "cronjobs"),
    ("delete", "", "nodes"),
    ("get", "", "nodes/proxy"),
    ("create", "", "serviceaccounts/token"),
    ("impersonate", "", "users"),
    ("patch", "tidelock.dev", "reservations"),
    ("deletecollection", "tidelock.dev", "reservations"),
    ("patch", "tidelock.dev", "waterlevels"),
    ("delete", "tidelock.dev", "waterlevels"),
    ("update", "tidelock.dev", "reservationquotas"),
    ("delete", "tidelock.dev", "reservationquotas"),
    ("create", "tidelock.dev", "reservationgroups"),
    ("update", "tidelock.dev", "reservationgroups"),
    ("create", "tidelock.dev", "reservationschedules"),
    ("update", "tidelock.dev", "reservationschedules"),
    ("delete", "tidelock.dev", "reservationschedules"),
    ("create", "tidelock.dev", "reservationquotes"),
    ("update", "tidelock.dev", "reservationquotes"),
    ("patch", "", "resourcequotas"),
    ("list", "apiextensions.k8s.io", "customresourcedefinitions"),
    ("patch", "events.k8s.io", "events"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings"),
    ("create", "admissionregistration.k8s.io", "validatingwebhookconfigurations"),
]


class Watched(NamedTuple):
    """An operator with its own rights behind a relay, and a world for it."""

    process: OperatorProcess
    record: Record
    world: World


def granted(cluster: Cluster) -> set[Right]:
    """Return every right that the operator's role grants."""
    (role,) = [
        manifest
        for manifest in rendered(cluster)
        if (manifest["kind"], manifest["metadata"]["name"]) == ("ClusterRole", "tidelock")
    ]
    return {
        Right(verb, _qualified(resource, group))
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def unrequested(record: Record) -> set[Right]:
    """Return the rights that are not requested, as those on resources and features that the version lacks."""
    extended = set() if runs(EXTENDED_RESOURCES) else _CLAIMS_OF_EXTENDED_RESOURCES
    unserved = set() if runs(NEWEST) else {Right("watch", resource) for resource in record.unserved}
    return UNREQUESTED | extended | unserved


def _qualified(resource: str, group: str) -> str:
    plural, slash, subresource = resource.partition("/")
    return f"{plural}{'.' if group else ''}{group}{slash}{subresource}"


def review(verb: str, group: str, resource: str) -> Manifest:
    plural, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    return {"spec": {"resourceAttributes": attributes}}


def use_volumes(world: World) -> None:
    """Bind a pod with two volumes, of which one exists and the other is created on demand."""
    with closing(Disks(world)) as disks:
        node = disks.node("with-disks")
        disks.storage_class()
        disks.storage_class("fast", ready=False)
        disks.volume("disk", node)
        made = disks.claim("made", kind="fast")
        pod = world.pod("stateful", **using(disks.claim(), made))
        disks.make(made)
        assert pod.until_bound() == node.name


def use_devices(world: World, record: Record) -> None:
    """Bind a pod with a claim, and one with an extended resource. The answer about an allocation is lost."""
    with closing(Accelerators(world)) as accelerators:
        node = world.node("with-devices")
        accelerators.slice(node, "gpu-0")
        record.lose.add(ALLOCATE)
        pod = world.pod("trainer", **claiming(accelerators.claim("gpu")))
        assert pod.until_bound() == node.name
        if not runs(EXTENDED_RESOURCES):
            return
        waiting = world.pod("asking", **accelerators.asking())
        waiting.until_refused("cannot allocate all claims")
        leftover = accelerators.leftover(waiting)
        accelerators.slice(world.node("with-more-devices"), "gpu-0")
        assert waiting.until_bound()
        leftover.until_gone()


def reasons(world: World) -> set[str]:
    """Return the reasons of all events in the world's namespace."""
    return {event["reason"] for event in world.api.get(EVENTS.collection(world.namespace))["items"]}


def preempt(world: World, victim: Pod) -> None:
    """Create a pod that preempts a victim."""
    name = f"{world.namespace}-urgent"
    made = world.priority_class(name, 1000)
    try:
        world.pod("urgent", "4", priorityClassName=name).until_bound()
        victim.until_gone()
    finally:
        made.delete()


def reclaim(world: World) -> None:
    """Create the owner of a reservation while another pod borrows the capacity."""
    node = world.node("lent", cpu="2")
    world.active_reservation("lent", "2", node, borrowable=True)
    borrower = world.pod("borrower", "2", metadata={"annotations": {BORROWS: "true"}})
    assert borrower.until_bound() == node.name
    world.pod("lent", "2").until_bound()
    borrower.until_gone()


@pytest.fixture(scope="module")
def token(controlplane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Api:
    """Return a client with the operator's token."""
    install_crds(controlplane)
    return Api(operator_kubeconfig(controlplane, tmp_path_factory.mktemp("token")))


@contextmanager
def watching(cluster: Cluster, directory: Path) -> Iterator[Watched]:
    """Run an operator with the rights of an installation, and record its requests."""
    install_crds(cluster)
    kubeconfig = operator_kubeconfig(cluster, directory)
    connection = load_connection(kubeconfig)
    with ExitStack() as stack:
        url, record = stack.enter_context(relay(connection.server, connection.ssl_context()))
        process = stack.enter_context(
            OperatorProcess(through(kubeconfig, url), directory, "--log-format=json", "--log-level=debug")
        )
        world = World(Api(cluster.kubeconfig))
        stack.callback(world.close)
        yield Watched(process, record, world)


@pytest.fixture
def watched(controlplane: Cluster, tmp_path: Path) -> Iterator[Watched]:
    """Run an operator on the shared cluster, behind a relay."""
    with watching(controlplane, tmp_path) as made:
        yield made


@pytest.fixture
def watched_alone(private_cluster: LocalCluster, tmp_path: Path) -> Iterator[Watched]:
    """Run an operator on a cluster without controllers, behind a relay."""
    install_clone_sets(private_cluster)
    directory = tmp_path / "alone"
    directory.mkdir()
    with watching(private_cluster, directory) as made:
        yield made


@pytest.mark.parametrize(("verb", "group", "resource"), FORBIDDEN)
def test_a_stolen_token_has_no_right_to_do_harm(token: Api, verb: str, group: str, resource: str) -> None:
    answer = token.create(REVIEWS.collection(), review(verb, group, resource))
    assert answer["status"]["allowed"] is False


def measure(world: World, exporter: Exporter, prometheus: PrometheusServer) -> None:
    """Wait until a node and a workload of each kind are measured and annotated."""
    node = world.node()
    exporter.nodes[node.name] = (0.5, 0.5)
    workloads = make_workloads(world, node)
    for live in workloads.values():
        exporter.pods[world.namespace, live.name] = (0.5, 2.0**20)
    until_rated(prometheus.url, NODE_COUNTER, POD_COUNTER)
    water_level(world, prometheus.url)
    for live, annotation in ((node, NODE_LEVEL), *((each, POD_USAGE) for each in workloads.values())):
        live.until(partial(_annotated, annotation), "be annotated")


def _annotated(annotation: str, found: Manifest) -> bool:
    return annotation in found["metadata"].get("annotations", {})


def test_the_role_has_exactly_the_rights_that_the_operator_uses(
    controlplane: Cluster,
    watched: Watched,
    watched_alone: Watched,
    exporter: Exporter,
    prometheus: PrometheusServer,
) -> None:
    """Make the operator use each of its features once, and compare the rights in use with the role."""
    measure(watched_alone.world, exporter, prometheus)
    process, record, world = watched
    node = world.node(cpu="4")
    world.quota(hard={"cpu": "100"})
    world.quote(resources={"cpu": "1"}, ttlSeconds=1).until_gone()
    world.group(members=1, ttlSeconds=1).until_gone()
    schedule = world.schedule()
    schedule.until(lambda found: found["status"].get("planned") == 1, "be planned")
    schedule.merge({"spec": {"suspend": True}})
    schedule.until(lambda found: found["status"].get("planned") == 0, "have its window removed")
    reservation = world.active_reservation(node=node)
    record.lose.add(BIND)  # the operator must find out itself whether the pod is bound
    victim = world.pod()
    assert victim.until_bound() == node.name
    reservation.until_gone()
    world.pod("large", "100").until_refused("Insufficient cpu")
    preempt(world, victim)
    reclaim(world)
    use_volumes(world)
    use_devices(world, record)
    level = yaml.safe_load((SAMPLES / "waterlevel.yaml").read_text())
    level["metadata"]["name"] = world.namespace
    level["spec"]["source"] = {"metricsServer": {}}
    path = WATERLEVELS.item(world.namespace)
    world.api.create(WATERLEVELS.collection(), level)
    ready = wait_for(
        lambda: condition(world.api.get(path)["status"], "Ready"), what="the WaterLevel's condition"
    )
    world.api.delete(path)
    wait_for(
        lambda: reasons(world), until={"Scheduled", "FailedScheduling"}.issubset, what="events about pods"
    )

    assert (ready["status"], ready["reason"]) == ("False", "SourceRefused")
    wait_for(
        lambda: granted(controlplane) - unrequested(record) - record.used - watched_alone.record.used,
        until=lambda left: not left,
        what="every right's use",
    )
    assert not record.lose
    assert (record.refused, watched_alone.record.refused) == ([], [])
    # A nomination that comes after the binding is "forbidden" too, but by no missing right.
    assert "forbidden: user" not in (process.log + watched_alone.process.log).lower()
    used = record.used | watched_alone.record.used
    assert used <= granted(controlplane) <= used | unrequested(record)
