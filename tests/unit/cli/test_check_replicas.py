"""`kubectl tidelock check` reports replicas that share a node, and replicas that are not ready."""

from typing import Any

import pytest

from builders import Json
from tidelock.cli.finding import CheckFinding, Severity
from tidelock.cli.installation import Installation
from tidelock.cli.replica_checks import replicas_finding

PLACE = Installation("platform", "tidelock", "tidelock")
WORDS = "0/2 nodes are available: 1 node(s) were unschedulable."


def pod(name: str, node: str = "", *, ready: bool = True, ends: bool = False, phase: str = "Running") -> Json:
    metadata = {"name": name} | ({"deletionTimestamp": "2026-12-01T00:00:00Z"} if ends else {})
    scheduled = {"type": "PodScheduled", "status": "False", "message": WORDS}
    conditions = [{"type": "Ready", "status": "True"}] if ready else [] if node else [scheduled]
    return {
        "metadata": metadata,
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase, "conditions": conditions},
    }


def finding(*pods: Json, replicas: int = 2, holder: str = "") -> CheckFinding:
    deployment: dict[str, Any] = {"spec": {"replicas": replicas}}
    return replicas_finding(PLACE, deployment, pods, holder)


def test_replicas_on_different_nodes_are_in_order() -> None:
    found = finding(pod("a", "worker-1"), pod("b", "worker-0"))
    assert found == CheckFinding("replicas", Severity.OK, "2 replicas are ready, on worker-0, worker-1")
    one = finding(pod("a", "worker-1"), replicas=1)
    assert (one.level, one.found) == (Severity.OK, "1 replica is ready, on worker-1")


@pytest.mark.parametrize(("holder", "standby"), [("a_4f", "b"), ("b_4f", "a"), ("", "a")])
def test_of_replicas_on_one_node_the_advice_deletes_the_standby(holder: str, standby: str) -> None:
    found = finding(pod("a", "worker-0"), pod("b", "worker-0"), holder=holder)
    assert found.level is Severity.NOTE
    assert found.found == "2 replicas are on node worker-0: its loss stops all of them"
    assert found.advice.startswith(f"kubectl -n platform delete pod {standby}: ")


def test_a_replica_without_a_node_is_noted_with_the_reason_of_the_scheduler() -> None:
    found = finding(pod("a", "worker-0"), pod("b", ready=False))
    assert found.level is Severity.NOTE
    assert found.found == f"1 of 2 replicas are ready: b has no node ({WORDS})"
    assert "kubectl uncordon NODE" in found.advice


def test_a_replica_that_starts_is_noted_with_its_node() -> None:
    found = finding(pod("a", "worker-0"), pod("b", "worker-1", ready=False))
    assert (found.level, found.found) == (
        Severity.NOTE,
        "1 of 2 replicas are ready: b on node worker-1 is not ready",
    )


def test_without_a_ready_replica_the_installation_is_wrong() -> None:
    assert finding().level is Severity.WRONG
    assert finding().found == "0 of 2 replicas are ready"


def test_pods_that_end_do_not_count() -> None:
    ends = pod("old", "worker-0", ends=True)
    failed = pod("evicted", "worker-0", ready=False, phase="Failed")
    found = finding(ends, failed, pod("a", "worker-0"), pod("b", "worker-1"))
    assert found.level is Severity.OK
