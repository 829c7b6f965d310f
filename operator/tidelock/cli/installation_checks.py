"""Checks of the parts of an installation: CRDs, rights and policies."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from tidelock.binders.webhooks import CONFIGURATION, CONFIGURATIONS
from tidelock.cli.finding import CheckFinding, Severity, first_of
from tidelock.cli.installation import CRDS, REAPPLY, Installation
from tidelock.cli.session import Session
from tidelock.kube.client import (
    EVENTS,
    NODES,
    PODS,
    RESERVATIONGROUPS,
    RESERVATIONQUOTAS,
    RESERVATIONQUOTES,
    RESERVATIONS,
    RESERVATIONSCHEDULES,
    WATERLEVELS,
    ApiResource,
)
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.kube.lease import LEASES
from tidelock.model.api.crds import CustomResource
from tidelock.scheduler.informers.informers import OTHERS, OWN

_CRDS = ApiResource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
POLICY_BINDINGS = ApiResource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

# Resources that the operator writes. It reads those that it watches.
_WRITES: tuple[tuple[str, ApiResource, str], ...] = (
    ("create", PODS, "binding"),
    ("patch", PODS, "status"),
    ("delete", PODS, ""),
    ("create", RESERVATIONS, ""),
    ("update", RESERVATIONS, "status"),
    ("delete", RESERVATIONS, ""),
    ("patch", WATERLEVELS, "status"),
    ("update", RESERVATIONGROUPS, "status"),
    ("delete", RESERVATIONGROUPS, ""),
    ("update", RESERVATIONSCHEDULES, "status"),
    ("update", RESERVATIONQUOTAS, "status"),
    ("update", RESERVATIONQUOTES, "status"),
    ("delete", RESERVATIONQUOTES, ""),
    ("patch", NODES, ""),
    ("get", OTHERS["resource_claims"][0], ""),
    ("patch", OTHERS["resource_claims"][0], ""),
    ("patch", OTHERS["resource_claims"][0], "status"),
    ("patch", OTHERS["resource_claims"][0], "binding"),
    ("create", EVENTS, ""),
)


async def check_crd(session: Session, resource: CustomResource) -> list[CheckFinding]:
    """Check whether a CRD is installed and served, with the schema of this version."""
    matter = f"CRD {resource.plural}"
    name = resource.definition()["metadata"]["name"]
    try:
        stored = msgspec.json.decode(await session.client.get(_CRDS.item(name)))
    except NotFound:
        return [CheckFinding(matter, Severity.WRONG, "is not installed", CRDS)]
    except Forbidden as error:
        return [CheckFinding(matter, Severity.UNKNOWN, f"not allowed to read: {error.message}")]
    return [crd_finding(matter, resource.definition(), stored)]


def crd_finding(matter: str, wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> CheckFinding:
    """Compare a stored definition with that of this version."""
    conditions = stored.get("status", {}).get("conditions", ())
    established = any((each["type"], each["status"]) == ("Established", "True") for each in conditions)
    if not established:
        problems = "; ".join(each["message"] for each in conditions if each["status"] == "False")
        return CheckFinding(matter, Severity.WRONG, f"is not served: {problems}", CRDS)
    (version,) = wanted["spec"]["versions"]
    schemas = {each["name"]: each.get("schema") for each in stored["spec"]["versions"]}
    if version["name"] not in schemas:
        found = f"has versions {', '.join(schemas)}, not {version['name']}"
        return CheckFinding(matter, Severity.WRONG, found, CRDS)
    if _stored(schemas[version["name"]]) != _stored(version["schema"]):
        found = f"{version['name']} is served, with another schema than this version's"
        advice = f"if the operator is of this version too, renew the CRDs: {CRDS}"
        return CheckFinding(matter, Severity.NOTE, found, advice)
    return CheckFinding(matter, Severity.OK, f"{version['name']} is served")


def _stored(schema: Any) -> Any:
    """Leave out empty values, which the API server does not store."""
    if isinstance(schema, dict):
        return {key: _stored(value) for key, value in schema.items() if value not in ({}, [])}
    return [_stored(value) for value in schema] if isinstance(schema, list) else schema


async def check_rights(session: Session, installation: Installation) -> CheckFinding:
    """Check whether the operator may do everything that it does."""
    wanted = [
        (verb, resource, "", "")
        for resource in (
            NODES,
            PODS,
            RESERVATIONS,
            *(resource for resource, _ in (*OTHERS.values(), *OWN.values())),
        )
        for verb in ("list", "watch")
    ]
    wanted += [(*right, "") for right in _WRITES]
    wanted.append(("list", LEASES, "", installation.lease))
    wanted += [("get", each.resource, "", CONFIGURATION) for each in CONFIGURATIONS]
    allowed = await asyncio.gather(*(_may(session, installation, *right) for right in wanted))
    missing = [_right(*right) for right, may in zip(wanted, allowed, strict=True) if not may]
    user = f"ServiceAccount {installation.namespace}/{installation.account}"
    if missing:
        return CheckFinding(
            "rights",
            Severity.WRONG,
            f"{user} may not {first_of(missing)}",
            f"bind the ClusterRole: {REAPPLY}",
        )
    return CheckFinding(
        "rights", Severity.OK, f"{user} may do all {len(wanted)} things that the operator does"
    )


async def _may(
    session: Session,
    installation: Installation,
    verb: str,
    resource: ApiResource,
    subresource: str,
    name: str,
) -> bool:
    """Return whether the operator may do something to the object of a name, or to all if it is empty."""
    attributes = {
        "verb": verb,
        "group": resource.group,
        "resource": resource.plural,
        "subresource": subresource,
        "name": name,
    }
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{installation.namespace}:{installation.account}",
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{installation.namespace}",
                "system:authenticated",
            ],
            "resourceAttributes": attributes,
        },
    }
    answer = msgspec.json.decode(await session.client.create(_REVIEWS, review))
    return bool(answer["status"]["allowed"])


def _right(verb: str, resource: ApiResource, subresource: str, name: str) -> str:
    right = f"{verb} {resource.plural}/{subresource}" if subresource else f"{verb} {resource.plural}"
    everywhere = " in all namespaces" if resource.namespaced else ""
    return f"{right} of name {name}{everywhere}" if name else right


async def check_fence(session: Session, installation: Installation) -> CheckFinding:
    """Check whether the API server refuses writes of a former leader."""
    return fence_finding(installation, await _policy_binding(session, "tidelock-fence"))


def fence_finding(installation: Installation, binding: Mapping[str, Any] | None) -> CheckFinding:
    """Check whether the fence against former leaders is there, and reads the Lease of the installation."""
    if binding is None:
        found = "ValidatingAdmissionPolicyBinding tidelock-fence is missing: a former leader may still write"
        return CheckFinding("fence", Severity.WRONG, found, REAPPLY)
    read = binding["spec"].get("paramRef") or {}
    lease = f"{installation.namespace}/{installation.lease}"
    if (fenced := f"{read.get('namespace')}/{read.get('name')}") != lease:
        found = f"it reads Lease {fenced}, not {lease}: a former leader may still write"
        advice = "let the operator use that Lease, or change paramRef of both bindings in fence.yaml"
        return CheckFinding("fence", Severity.WRONG, found, advice)
    return CheckFinding("fence", Severity.OK, "the API server refuses writes of a former leader")


async def check_status_writers(session: Session) -> CheckFinding:
    """Check which clients may write statuses. See docs/security.md to extend that."""
    if await _policy_binding(session, "tidelock-status-writers") is not None:
        return CheckFinding("statuses", Severity.OK, "the API server refuses all but the operator's")
    found = (
        "ValidatingAdmissionPolicyBinding tidelock-status-writers is missing: "
        "a client that may write statuses in one namespace can take capacity from others"
    )
    return CheckFinding("statuses", Severity.NOTE, found, REAPPLY)


async def _policy_binding(session: Session, name: str) -> dict[str, Any] | None:
    """Return a ValidatingAdmissionPolicyBinding, or None if there is none."""
    try:
        binding: dict[str, Any] = msgspec.json.decode(await session.client.get(POLICY_BINDINGS.item(name)))
    except NotFound:
        return None
    return binding
