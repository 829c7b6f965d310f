"""Webhooks that an operator without their option leaves unserved are reported, and also their end.

It needs an API server that refuses bindings while a webhook does not answer, and that lets the role of the
operator read this configuration.
"""

import json
from collections.abc import Iterator
from functools import partial

import pytest

from cluster.api import Api
from cluster.binder_server import bind, webhooks
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import SYSTEM_NAMESPACE, rendered
from devcluster.loopback import free_ports
from tidelock.cli.finding import CheckFinding, Severity
from tidelock.cli.installation import Installation
from tidelock.cli.session import ClusterTarget, ask
from tidelock.cli.webhook_checks import check_admission
from tidelock.clock import SystemClock
from tidelock.kube.lease import LEASES
from tidelock.model.instants import format_instant

UNSERVED = 'tidelock_webhook_mismatch{mismatch="unserved",option="admission"}'
WARNING = "webhooks exist that this operator does not serve"
INSTALLATION = Installation(SYSTEM_NAMESPACE, "tidelock", "mismatch")


@pytest.fixture
def deployed(private_cluster: LocalCluster) -> Iterator[None]:
    """Let the cluster have the Deployment of the base, without the option, and a Lease that is held."""
    api = Api(private_cluster.kubeconfig)
    (deployment,) = (each for each in rendered(private_cluster) if each["kind"] == "Deployment")
    private_cluster.kubectl("apply", "-f", "-", input=json.dumps(deployment))
    now = format_instant(SystemClock().now())
    spec = {"holderIdentity": "a_4f", "renewTime": f"{now[:19]}.000000Z", "leaseDurationSeconds": 600}
    lease = {"metadata": {"name": INSTALLATION.lease, "namespace": SYSTEM_NAMESPACE}, "spec": spec}
    api.create(LEASES.collection(SYSTEM_NAMESPACE), lease)
    yield
    api.delete(LEASES.item(INSTALLATION.lease, SYSTEM_NAMESPACE))
    private_cluster.kubectl("delete", "deployment", "tidelock", f"--namespace={SYSTEM_NAMESPACE}")


def check(cluster: LocalCluster) -> CheckFinding:
    target = ClusterTarget(kubeconfig=str(cluster.kubeconfig))
    return ask(target, lambda session: check_admission(session, INSTALLATION, SystemClock().now()))


def test_webhooks_without_their_option_are_reported_until_they_are_gone(
    private_cluster: LocalCluster,
    private_operator: OperatorProcess,
    private_world: World,
    deployed: None,
) -> None:
    """Bindings of other schedulers were refused after a change of the options, and nothing said so."""

    def unserved() -> float:
        return private_operator.metrics().get(UNSERVED, -1)

    api, (port,) = private_world.api, free_ports(1)
    pod, node = private_world.pod(schedulerName="default-scheduler"), private_world.node()
    wait_for(unserved, until=lambda seen: seen == 0, what="the webhooks to be compared")
    assert check(private_cluster).level is Severity.NOTE
    assert WARNING not in private_operator.log

    with webhooks(private_cluster, api, port):
        wait_for(unserved, until=lambda seen: seen == 1, what="the metric of webhooks that are not served")
        wait_for(
            partial(bind, pod, node),
            until=lambda refusal: "failed calling webhook" in refusal,
            what="a refusal",
        )
        assert private_operator.log.count(WARNING) == 1
        assert "ValidatingWebhookConfiguration tidelock" in private_operator.log
        found = check(private_cluster)
        assert found.level is Severity.WRONG
        assert "exists, but the operator runs without --admission: " in found.found
        program, *words = found.advice.rpartition(": ")[2].split()
        assert (program, words[0]) == ("kubectl", "delete")
        assert private_cluster.kubectl(*words, "--dry-run=server")

    wait_for(unserved, until=lambda seen: seen == 0, what="the end of it")
    assert "the webhooks are those that this operator serves" in private_operator.log
    assert check(private_cluster).level is Severity.NOTE
