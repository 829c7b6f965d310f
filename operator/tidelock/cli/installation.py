"""The operator's installation: where it is, and whether a process leads."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from tidelock.cli.finding import CheckFinding, Severity, first_of
from tidelock.cli.session import Session
from tidelock.cli.tables import span
from tidelock.kube.client import ApiResource
from tidelock.kube.config import SYSTEM_NAMESPACE
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.kube.lease import LEASES
from tidelock.kube.listing import list_all
from tidelock.model.instants import stored_instant
from tidelock.model.printable import printable

CRDS = "in a clone of the operator's version: kubectl apply --server-side -k crds"
"""The command that installs the CRDs, which changes nothing else of an installation."""
REAPPLY = "apply your own kustomization or Helm release in the operator's version, see docs/installation.md"
"""How missing objects come back. The base alone would replace an installation's image and options."""
BINDERS = "add manifests/components/extender to your kustomization, or extender.enabled to your release"
"""How an installation gets the webhooks and the extender for other binders."""

DEPLOYMENT = "tidelock"
"""Name of the operator's Deployment."""

_DEPLOYMENTS = ApiResource("apps", "v1", "deployments", "Deployment")
# Characters of a holder or a time, which tenants can write into Leases of their own.
_LONGEST_NAME = 100
# Seconds by which the clock of a holder can be ahead of this one.
_MOST_AHEAD = 300.0


@dataclass(frozen=True, slots=True)
class Installation:
    """Location of the operator's installation. An empty namespace is not known yet."""

    namespace: str
    account: str
    lease: str


async def located(session: Session, installation: Installation, now: float) -> Installation:
    """Fill in the namespace: the one with a Lease of that name, or the usual one if there is none."""
    if installation.namespace:
        return installation
    try:
        leases = await _leases(session, installation)
    except (Forbidden, NotFound):
        leases = []
    return replace(installation, namespace=namespace_of(leases, now))


def namespace_of(leases: Sequence[Mapping[str, Any]], now: float) -> str:
    """Return the namespace of the installation, given all Leases of its name.

    Of several, such as that of a removed release, it is the one that is held, that is in the usual namespace,
    or that was renewed last, in this order.
    """

    def rank(lease: Mapping[str, Any]) -> tuple[bool, bool, float]:
        spec = lease.get("spec") or {}
        usual, renewed = lease["metadata"]["namespace"] == SYSTEM_NAMESPACE, _renewed(spec, now)
        return is_held(spec, now), usual, -math.inf if renewed is None else renewed

    return str(max(leases, key=rank)["metadata"]["namespace"]) if leases else SYSTEM_NAMESPACE


async def _leases(session: Session, installation: Installation) -> list[dict[str, Any]]:
    """List the Leases of that name in all namespaces. Raises Forbidden or NotFound."""
    chosen = {"fieldSelector": f"metadata.name={installation.lease}"}
    return [msgspec.json.decode(raw) for raw in await list_all(session.client, LEASES, chosen=chosen)]


async def read_lease(session: Session, installation: Installation) -> dict[str, Any] | None:
    """Return the spec of the operator's Lease, or None if there is no Lease. Raises Forbidden."""
    lease = await _read(session, LEASES.item(installation.lease, installation.namespace))
    return None if lease is None else lease.get("spec") or {}


async def read_deployment(session: Session, installation: Installation) -> dict[str, Any] | None:
    """Return the operator's Deployment, or None if there is none. Raises Forbidden."""
    return await _read(session, _DEPLOYMENTS.item(DEPLOYMENT, installation.namespace))


async def _read(session: Session, path: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = msgspec.json.decode(await session.client.get(path))
    except NotFound:
        return None
    return found


async def check_lease(session: Session, installation: Installation, now: float) -> CheckFinding:
    """Read the Lease and check whether an operator decides. Raises Forbidden."""
    return lease_finding(installation, await read_lease(session, installation), now)


async def check_other_leaders(session: Session, installation: Installation, now: float) -> CheckFinding:
    """Check whether an operator with another Lease decides, too. Raises Forbidden."""
    return other_leaders_finding(installation, await _leases(session, installation), now)


def other_leaders_finding(
    installation: Installation, leases: Sequence[Mapping[str, Any]], now: float
) -> CheckFinding:
    """Check by all Leases of that name whether more than one operator decides."""
    others = [
        f"{printable(lease['spec']['holderIdentity'])[:_LONGEST_NAME]} by Lease "
        f"{lease['metadata']['namespace']}/{installation.lease}"
        for lease in leases
        if lease["metadata"]["namespace"] != installation.namespace and is_held(lease.get("spec") or {}, now)
    ]
    if not others:
        return CheckFinding("leaders", Severity.OK, f"no other Lease {installation.lease} is held")
    advice = (
        "stop all operators except one, or let them use one Lease "
        f"(--lease-namespace={installation.namespace}): together they give capacity twice"
    )
    return CheckFinding("leaders", Severity.WRONG, f"another operator leads, too: {first_of(others)}", advice)


def lease_finding(installation: Installation, spec: Mapping[str, Any] | None, now: float) -> CheckFinding:
    """Check by the Lease whether an operator decides."""
    name = f"Lease {installation.namespace}/{installation.lease}"
    kubectl = f"kubectl -n {installation.namespace}"
    look = f"{kubectl} get pods; {kubectl} logs deployment/tidelock"
    if spec is None:
        advice = f"install the operator, see docs/installation.md, or see why it does not start: {look}"
        return CheckFinding("Lease", Severity.WRONG, f"there is no {name}: no operator has ever led", advice)
    holder, renewed = spec.get("holderIdentity") or "", _renewed(spec, now)
    if not holder or not spec.get("renewTime"):
        return CheckFinding("Lease", Severity.WRONG, f"no process holds {name}: no operator runs", look)
    if renewed is None:
        text = printable(str(spec["renewTime"]))[:_LONGEST_NAME]
        return CheckFinding("Lease", Severity.WRONG, f"{name} has no possible renewTime: {text}", look)
    age, duration = now - renewed, spec.get("leaseDurationSeconds") or 0
    if not is_held(spec, now):
        found = f"{holder} held {name} and has been silent for {span(age)} (limit {duration}s)"
        return CheckFinding("Lease", Severity.WRONG, found, look)
    epoch = spec.get("leaseTransitions") or 0
    return CheckFinding("Lease", Severity.OK, f"{holder} leads, in leadership {epoch}")


def is_held(spec: Mapping[str, Any], now: float) -> bool:
    """Return whether a Lease has a holder that renewed it within its duration."""
    renewed = _renewed(spec, now)
    if not spec.get("holderIdentity") or renewed is None:
        return False
    return now - renewed <= (spec.get("leaseDurationSeconds") or 0)


def _renewed(spec: Mapping[str, Any], now: float) -> float | None:
    """Return when a Lease was renewed, or None if its time can't be read or is too far ahead.

    Tenants can write any time into Leases of their own.
    """
    renewed = stored_instant(spec.get("renewTime"))
    return None if renewed is None or renewed > now + _MOST_AHEAD else renewed
