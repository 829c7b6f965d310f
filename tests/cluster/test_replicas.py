"""The two replicas of the component ha stay on two nodes, whatever happens to the nodes.

It needs an API server with the real controllers of Deployments and budgets, and kube-scheduler, which places
the operator's own pods. `installation/test_composition.py` pins the fields whose effect these tests prove.
"""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cluster.api import Manifest
from devcluster import Cluster, DevClusterError, LocalCluster, add_kwok_node, start_cluster, wait_for
from devcluster.identity import SYSTEM_NAMESPACE, rendered
from tidelock.cli.finding import CheckFinding, Severity
from tidelock.cli.installation import Installation
from tidelock.cli.replica_checks import check_replicas
from tidelock.cli.session import ClusterTarget, ask

pytestmark = pytest.mark.nightly  # it has a cluster of its own

HA = "components/ha"
DEPLOYMENT = "deployment/tidelock"
A, B, C = "worker-a", "worker-b", "worker-c"
# A drain that a budget refuses fails after this time.
DRAIN = ("--force", "--delete-emptydir-data", "--timeout=60s")
# Seconds, of which seconds are needed. kube-scheduler tries a pod again at the latest after five minutes.
RETURN = 400.0
INSTALLATION = Installation(SYSTEM_NAMESPACE, "tidelock", "tidelock")


class Replicas:
    """The replicas of the operator, of which kwok runs the pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def kubectl(self, *words: str, text: str | None = None) -> str:
        """Run kubectl in the operator's namespace."""
        return self._cluster.kubectl(f"--namespace={SYSTEM_NAMESPACE}", *words, input=text)

    def pods(self) -> list[Manifest]:
        """List the pods that do not end."""
        found: list[Manifest] = json.loads(self.kubectl("get", "pods", "-o", "json"))["items"]
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def nodes(self) -> list[str]:
        """Return the nodes of the ready replicas, in their order."""
        return sorted(each["spec"]["nodeName"] for each in self.pods() if is_ready(each))

    def until_on(self, *nodes: str) -> None:
        """Wait until there are two replicas, of which exactly these nodes have a ready one each."""
        wait_for(
            lambda: (self.nodes(), len(self.pods())),
            until=lambda found: found == (sorted(nodes), 2),
            what=f"ready replicas on {', '.join(nodes)}",
            timeout=RETURN,
        )

    def drain(self, node: str) -> None:
        """Drain a node. It fails if a budget refuses an eviction for a minute."""
        self.kubectl("drain", node, *DRAIN)

    def revisions(self) -> set[str]:
        """Return the hashes of the revisions by which the pods are labelled."""
        return {each["metadata"]["labels"]["pod-template-hash"] for each in self.pods()}

    def roll_out(self) -> None:
        """Roll a new revision out, and wait until no pod of an older one is left."""
        before = self.revisions()
        self.kubectl("rollout", "restart", DEPLOYMENT)
        wait_for(
            self.revisions,
            until=lambda found: len(found) == 1 and not found & before,
            what="the new revision alone",
        )

    def check(self) -> CheckFinding:
        """Return the finding of `kubectl tidelock check` about the replicas."""
        target = ClusterTarget(kubeconfig=str(self._cluster.kubeconfig))
        return ask(target, lambda session: check_replicas(session, INSTALLATION))


def is_ready(pod: Manifest) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


@pytest.fixture(scope="module")
def scheduling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a cluster with kube-scheduler and all controllers."""
    with start_cluster(tmp_path_factory.mktemp("replicas"), scheduler=True) as cluster:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
        cluster.kubectl("create", "-f", "-", input=json.dumps(namespace))
        yield cluster


@contextmanager
def installed(cluster: LocalCluster, *nodes: str) -> Iterator[Replicas]:
    """Install the Deployment and its budget on nodes of these names, and wait until they run there."""
    kinds = ("Deployment", "PodDisruptionBudget")
    text = "\n---\n".join(json.dumps(each) for each in rendered(cluster, HA) if each["kind"] in kinds)
    for node in nodes:
        add_kwok_node(cluster, node)
    made = Replicas(cluster)
    made.kubectl("apply", "-f", "-", text=text)
    try:
        made.until_on(*nodes[:2])
        yield made
    finally:
        made.kubectl("delete", "-f", "-", text=text)
        made.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        cluster.kubectl("delete", "nodes", "--all")


@pytest.fixture
def replicas(scheduling: LocalCluster) -> Iterator[Replicas]:
    """Yield the replicas on two nodes."""
    with installed(scheduling, A, B) as made:
        yield made


def test_after_drains_of_both_nodes_in_turn_the_replicas_are_on_two_nodes_again(replicas: Replicas) -> None:
    """Both ended on the other node and stayed there, as a cordoned node did not count in their spread."""
    for drained, other in ((B, A), (A, B)):
        replicas.drain(drained)
        replicas.until_on(other)
        waiting = replicas.check()
        assert waiting.level is Severity.NOTE
        assert waiting.found.startswith("1 of 2 replicas are ready: tidelock-")
        assert "kubectl uncordon NODE" in waiting.advice

        replicas.kubectl("uncordon", drained)
        replicas.until_on(A, B)
    found = replicas.check()
    assert (found.level, found.found) == (Severity.OK, f"2 replicas are ready, on {A}, {B}")


def test_a_drain_of_the_last_replicas_node_waits_for_the_other_replica(replicas: Replicas) -> None:
    replicas.drain(B)
    replicas.until_on(A)
    with pytest.raises(DevClusterError, match=r"disruption budget|global timeout"):
        replicas.kubectl("drain", A, "--force", "--delete-emptydir-data", "--timeout=3s")
    assert replicas.nodes() == [A]
    replicas.kubectl("uncordon", B)
    replicas.until_on(A, B)
    replicas.drain(A)
    replicas.until_on(B)


def test_a_roll_out_on_two_nodes_ends_on_two_nodes(replicas: Replicas) -> None:
    replicas.roll_out()
    replicas.kubectl("rollout", "status", DEPLOYMENT, "--timeout=60s")
    assert replicas.nodes() == [A, B]


def test_on_one_node_the_new_revision_replaces_the_old_one_and_the_standby_waits_for_a_node(
    replicas: Replicas, scheduling: LocalCluster
) -> None:
    """With maxUnavailable 0 the roll-out would wait for ever beside a replica that has no node."""
    replicas.drain(B)
    scheduling.kubectl("delete", "node", B)
    replicas.until_on(A)

    replicas.roll_out()

    replicas.until_on(A)
    add_kwok_node(scheduling, C)  # in the place of the deleted one
    replicas.until_on(A, C)


def test_on_three_nodes_a_drained_replica_goes_to_the_third_node_at_once(scheduling: LocalCluster) -> None:
    with installed(scheduling, A, B) as replicas:
        add_kwok_node(scheduling, C)
        replicas.drain(B)
        replicas.until_on(A, C)


def test_check_names_the_command_that_separates_two_replicas_on_one_node(replicas: Replicas) -> None:
    """An older revision of the manifests, or a binding by hand, puts both on one node."""
    replicas.drain(B)
    replicas.until_on(A)
    (waiting,) = (each["metadata"]["name"] for each in replicas.pods() if not is_ready(each))
    target = {"apiVersion": "v1", "kind": "Node", "name": A}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": waiting}, "target": target}
    path = f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods/{waiting}/binding"
    replicas.kubectl("create", "--raw", path, "-f", "-", text=json.dumps(binding))
    replicas.until_on(A, A)
    replicas.kubectl("uncordon", B)

    found = replicas.check()

    assert (found.level, found.found) == (
        Severity.NOTE,
        f"2 replicas are on node {A}: its loss stops all of them",
    )
    program, *words = shlex.split(found.advice.partition(":")[0])
    assert program == "kubectl"
    replicas.kubectl(*words)
    replicas.until_on(A, B)
