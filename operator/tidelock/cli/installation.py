"""The operator's installation: where it is, and whether a process leads."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tidelock.cli.finding import CheckFinding, Severity
from tidelock.cli.session import Session
from tidelock.cli.tables import span
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.kube.lease import LEASES
from tidelock.model.instants import parse_instant

CRDS = "in a clone of the operator's version: kubectl apply --server-side -k crds"
"""The command that installs the CRDs, which changes nothing else of an installation."""
REAPPLY = "apply your own kustomization or Helm release in the operator's version, see docs/installation.md"
"""How missing objects come back. The base alone would replace an installation's image and options."""
BINDERS = "add manifests/components/extender to your kustomization, or extender.enabled to your release"
"""How an installation gets the webhooks and the extender for other binders."""

_USUAL_NAMESPACE = "tidelock-system"


@dataclass(frozen=True, slots=True)
class Installation:
    """Location of the operator's installation. An empty namespace is not known yet."""

    namespace: str
    account: str
    lease: str


async def located(session: Session, installation: Installation) -> Installation:
    """Fill in the namespace: the one with a Lease of that name, or the usual one if there is none."""
    if installation.namespace:
        return installation
    parameters = {"fieldSelector": f"metadata.name={installation.lease}"}
    try:
        answer = msgspec.json.decode(await session.client.get(LEASES.collection(), parameters))
    except (Forbidden, NotFound):
        answer = {}
    # Of several, such as one of a removed release, the one that was renewed last.
    leases = sorted(answer.get("items") or (), key=lambda lease: str(lease["spec"].get("renewTime", "")))
    found = leases[-1]["metadata"]["namespace"] if leases else _USUAL_NAMESPACE
    return replace(installation, namespace=found)


async def check_lease(session: Session, installation: Installation, now: float) -> CheckFinding:
    """Read the Lease and check whether an operator decides. Raises Forbidden."""
    try:
        lease = msgspec.json.decode(
            await session.client.get(LEASES.item(installation.lease, installation.namespace))
        )
    except NotFound:
        return lease_finding(installation, None, now)
    return lease_finding(installation, lease["spec"], now)


def lease_finding(installation: Installation, spec: Mapping[str, Any] | None, now: float) -> CheckFinding:
    """Check by the Lease whether an operator decides."""
    name = f"Lease {installation.namespace}/{installation.lease}"
    kubectl = f"kubectl -n {installation.namespace}"
    look = f"{kubectl} get pods; {kubectl} logs deployment/tidelock"
    if spec is None:
        advice = f"install the operator, see docs/installation.md, or see why it does not start: {look}"
        return CheckFinding("Lease", Severity.WRONG, f"there is no {name}: no operator has ever led", advice)
    holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime")
    if not holder or not renewed:
        return CheckFinding("Lease", Severity.WRONG, f"no process holds {name}: no operator runs", look)
    age, duration = now - parse_instant(renewed), spec.get("leaseDurationSeconds") or 0
    if age > duration:
        found = f"{holder} held {name} and has been silent for {span(age)} (limit {duration}s)"
        return CheckFinding("Lease", Severity.WRONG, found, look)
    epoch = spec.get("leaseTransitions") or 0
    return CheckFinding("Lease", Severity.OK, f"{holder} leads, in leadership {epoch}")
