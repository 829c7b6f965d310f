"""Checks of the operator's replicas: whether all are ready, and on different nodes."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from tidelock.cli.finding import CheckFinding, Severity, first_of
from tidelock.cli.installation import DEPLOYMENT, Installation, read_deployment, read_lease
from tidelock.cli.session import Session
from tidelock.kube.client import PODS
from tidelock.kube.listing import list_all
from tidelock.model.printable import printable

_MATTER = "replicas"
_ENDED = ("Succeeded", "Failed")
_LONGEST = 200  # characters of a message in one line


async def check_replicas(session: Session, installation: Installation) -> CheckFinding:
    """Check whether the replicas of the operator are ready and on different nodes. Raises Forbidden."""
    deployment = await read_deployment(session, installation)
    if deployment is None:
        found = (
            f"there is no Deployment {installation.namespace}/{DEPLOYMENT}: the operator runs by other means"
        )
        return CheckFinding(_MATTER, Severity.OK, found)
    labels = deployment["spec"]["selector"].get("matchLabels", {})
    chosen = {"labelSelector": ",".join(f"{name}={value}" for name, value in sorted(labels.items()))}
    listed = await list_all(session.client, PODS, installation.namespace, chosen)
    lease = await read_lease(session, installation) or {}
    pods = [msgspec.json.decode(raw) for raw in listed]
    return replicas_finding(installation, deployment, pods, lease.get("holderIdentity") or "")


def replicas_finding(
    installation: Installation,
    deployment: Mapping[str, Any],
    pods: Sequence[Mapping[str, Any]],
    holder: str = "",
) -> CheckFinding:
    """Judge the pods of the Deployment. `holder` is the identity of the process that leads."""
    wanted = deployment["spec"].get("replicas", 1)
    present = [each for each in pods if not _ends(each)]
    ready = [each for each in present if _condition(each, "Ready").get("status") == "True"]
    nodes = sorted({each["spec"].get("nodeName", "") for each in ready})
    kubectl = f"kubectl -n {installation.namespace}"
    if len(ready) > 1 and len(nodes) == 1:
        found = f"{len(ready)} replicas are on node {nodes[0]}: its loss stops all of them"
        standby = next((each for each in ready if not _leads(each, holder)), ready[0])
        advice = (
            f"{kubectl} delete pod {standby['metadata']['name']}: its successor goes to another node "
            "by the rules of manifests/components/ha, or of replicas in the chart"
        )
        return CheckFinding(_MATTER, Severity.NOTE, found, advice)
    if len(ready) < wanted:
        reasons = [_reason(each) for each in present if each not in ready]
        found = f"{len(ready)} of {wanted} replicas are ready" + (f": {first_of(reasons)}" if reasons else "")
        advice = (
            "replicas need a node each that takes pods: kubectl uncordon NODE, or add one. "
            "Until then a drain of the last replica's node waits"
        )
        return CheckFinding(_MATTER, Severity.NOTE if ready else Severity.WRONG, found, advice)
    count = f"{len(ready)} replicas are" if len(ready) != 1 else "1 replica is"
    return CheckFinding(_MATTER, Severity.OK, f"{count} ready, on {first_of(nodes) or 'no node'}")


def _ends(pod: Mapping[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"] or pod.get("status", {}).get("phase") in _ENDED


def _condition(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    conditions = pod.get("status", {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == kind), {})


def _leads(pod: Mapping[str, Any], holder: str) -> bool:
    """Return whether the process that leads is in a pod, by its host name in the identity."""
    name: str = pod["metadata"]["name"]
    return holder.rpartition("_")[0] == name


def _reason(pod: Mapping[str, Any]) -> str:
    """Return why a pod is not ready."""
    name = pod["metadata"]["name"]
    if node := pod["spec"].get("nodeName"):
        return f"{name} on node {node} is not ready"
    message = printable(str(_condition(pod, "PodScheduled").get("message", "")))[:_LONGEST]
    return f"{name} has no node" + (f" ({message})" if message else "")
