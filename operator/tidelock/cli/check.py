"""`kubectl tidelock check`: whether Tidelock is installed and works, with advice if it does not."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import msgspec
import typer

from tidelock.binders.tokens import TOKEN_PATH
from tidelock.cli.finding import CheckFinding, Severity
from tidelock.cli.installation import INSTALL, Installation, check_lease, located
from tidelock.cli.locks import Seen
from tidelock.cli.options import Context, Format, Kubeconfig, Output
from tidelock.cli.session import ClusterTarget, Session, ask
from tidelock.cli.tables import Table, show, show_plain
from tidelock.cli.water import measured
from tidelock.clock import SystemClock
from tidelock.kube.client import (
    EVENTS,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    RESERVATIONGROUPS,
    RESERVATIONQUOTAS,
    RESERVATIONQUOTES,
    RESERVATIONS,
    RESERVATIONSCHEDULES,
    WATERLEVELS,
    WEBHOOKS,
    ApiResource,
)
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.kube.listing import list_all
from tidelock.kube.skew import TOLERANCE, skew_of
from tidelock.model.api.crds import CUSTOM_RESOURCES, CustomResource
from tidelock.model.meta import ObjectMeta
from tidelock.model.nodes import Node, decode_node
from tidelock.model.reservation import Reservation, decode_reservation
from tidelock.model.usage_annotations import Quality
from tidelock.model.water_level import WaterLevel, decode_water_level
from tidelock.scheduler.informers.informers import OTHERS, OWN, WATCHED

EXAMPLES = """\
kubectl tidelock check
kubectl tidelock check --system-namespace platform
"""

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

_BINDERS = "kubectl apply --server-side -k manifests/overlays/extender"
_NO_REVIEWS = CheckFinding(
    "admission",
    Severity.NOTE,
    "bindings of other schedulers are not reviewed: they may take reserved capacity",
    f"needed only beside other schedulers: {_BINDERS}, see docs/other-binders.md",
)
_NO_ANSWERS = CheckFinding(
    "answers",
    Severity.NOTE,
    "creations with spec.answer are not answered: the node is in the status alone",
    f"needed only for immediate answers: {_BINDERS}, see docs/immediate-answers.md",
)
_PATIENCE = 30.0  # seconds within which the operator must process a reservation, or end it
_NAMED = 3

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


def command(
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
    system_namespace: Annotated[
        str,
        typer.Option(
            "--system-namespace",
            help="Namespace of the operator. Default: the one that has its Lease.",
            metavar="NAMESPACE",
            show_default=False,
        ),
    ] = "",
    account: Annotated[
        str, typer.Option("--service-account", help="ServiceAccount of the operator.", metavar="NAME")
    ] = "tidelock",
    lease: Annotated[
        str, typer.Option("--lease", help="Lease of the operator.", metavar="NAME")
    ] = "tidelock",
) -> None:
    """Check CRDs, rights, Lease, admission and staleness. Exit status 1 if any of them is wrong."""
    installation = Installation(system_namespace, account, lease)
    findings = ask(
        ClusterTarget(kubeconfig=kubeconfig, context=context), lambda session: _check(session, installation)
    )
    if output in (Output.JSON, Output.YAML):
        show_plain([asdict(each) for each in findings], output)
    else:
        show(*report(findings))
    if any(each.level is Severity.WRONG for each in findings):
        raise typer.Exit(1)


def report(findings: Sequence[CheckFinding]) -> list[Table | str]:
    """Return the table, and below it the advice."""
    rows = [[each.matter, each.level.value, each.found] for each in findings]
    table = Table(["CHECK", "", "FOUND"], rows)
    todo = [f"{each.matter}: {each.advice}" for each in findings if each.advice]
    return [table, *(["", "What to do:"] if todo else []), *(f"- {line}" for line in todo)]


async def _check(session: Session, installation: Installation) -> list[CheckFinding]:
    await session.client.time_of_day()  # a cluster that can't be reached is one sentence, not eight
    installation = await located(session, installation)
    now = SystemClock().now()
    found = await asyncio.gather(
        *(_crd(session, resource) for resource in CUSTOM_RESOURCES),
        _looked("rights", _rights, session, installation),
        _looked("Lease", check_lease, session, installation, now),
        _looked("fence", _fence, session),
        _looked("statuses", _statuses, session),
        _looked("admission", _webhook, session, WEBHOOKS, admission_finding, _NO_REVIEWS),
        _looked("answers", _webhook, session, MUTATING_WEBHOOKS, answers_finding, _NO_ANSWERS),
        _looked("clock", _clock, session),
        _looked("objects", _objects, session),
        _looked("reservations", _reservations, session, now),
        _looked("water levels", _water_levels, session, now),
    )
    return [finding for each in found for finding in each]


async def _looked(
    matter: str, look: Callable[..., Awaitable[CheckFinding]], *args: Any
) -> list[CheckFinding]:
    """Run a check. If it is not possible, its result is unknown."""
    try:
        return [await look(*args)]
    except Forbidden as error:
        advice = "ask a user with that right to run this, such as a cluster-admin"
        return [CheckFinding(matter, Severity.UNKNOWN, f"not allowed to read: {error.message}", advice)]
    except NotFound:
        return [
            CheckFinding(
                matter, Severity.WRONG, "the API does not exist here", f"install Tidelock: {INSTALL}"
            )
        ]


async def _crd(session: Session, resource: CustomResource) -> list[CheckFinding]:
    matter = f"CRD {resource.plural}"
    name = resource.definition()["metadata"]["name"]
    try:
        stored = msgspec.json.decode(await session.client.get(_CRDS.item(name)))
    except NotFound:
        return [CheckFinding(matter, Severity.WRONG, "is not installed", f"{INSTALL}")]
    except Forbidden as error:
        return [CheckFinding(matter, Severity.UNKNOWN, f"not allowed to read: {error.message}")]
    return [crd_finding(matter, resource.definition(), stored)]


def crd_finding(matter: str, wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> CheckFinding:
    """Compare a stored definition with that of this version."""
    conditions = stored.get("status", {}).get("conditions", ())
    established = any((each["type"], each["status"]) == ("Established", "True") for each in conditions)
    if not established:
        problems = "; ".join(each["message"] for each in conditions if each["status"] == "False")
        return CheckFinding(matter, Severity.WRONG, f"is not served: {problems}", INSTALL)
    (version,) = wanted["spec"]["versions"]
    schemas = {each["name"]: each.get("schema") for each in stored["spec"]["versions"]}
    if version["name"] not in schemas:
        found = f"has versions {', '.join(schemas)}, not {version['name']}"
        return CheckFinding(matter, Severity.WRONG, found, INSTALL)
    if _stored(schemas[version["name"]]) != _stored(version["schema"]):
        found = f"{version['name']} is served, with another schema than this version's"
        advice = f"if the operator is of this version too, renew the CRDs: {INSTALL}"
        return CheckFinding(matter, Severity.NOTE, found, advice)
    return CheckFinding(matter, Severity.OK, f"{version['name']} is served")


def _stored(schema: Any) -> Any:
    """Leave out empty values, which the API server does not store."""
    if isinstance(schema, dict):
        return {key: _stored(value) for key, value in schema.items() if value not in ({}, [])}
    return [_stored(value) for value in schema] if isinstance(schema, list) else schema


async def _rights(session: Session, installation: Installation) -> CheckFinding:
    wanted = [
        (verb, resource, "")
        for resource in (
            NODES,
            PODS,
            RESERVATIONS,
            *(resource for resource, _ in (*OTHERS.values(), *OWN.values())),
        )
        for verb in ("list", "watch")
    ]
    wanted += _WRITES
    allowed = await asyncio.gather(*(_may(session, installation, *right) for right in wanted))
    missing = [_right(*right) for right, may in zip(wanted, allowed, strict=True) if not may]
    user = f"ServiceAccount {installation.namespace}/{installation.account}"
    if missing:
        named = ", ".join(missing[:_NAMED]) + (
            f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        )
        return CheckFinding(
            "rights", Severity.WRONG, f"{user} may not {named}", f"bind the ClusterRole: {INSTALL}"
        )
    return CheckFinding(
        "rights", Severity.OK, f"{user} may do all {len(wanted)} things that the operator does"
    )


async def _may(
    session: Session, installation: Installation, verb: str, resource: ApiResource, subresource: str
) -> bool:
    attributes = {
        "verb": verb,
        "group": resource.group,
        "resource": resource.plural,
        "subresource": subresource,
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


def _right(verb: str, resource: ApiResource, subresource: str) -> str:
    return f"{verb} {resource.plural}/{subresource}" if subresource else f"{verb} {resource.plural}"


async def _fence(session: Session) -> CheckFinding:
    if await _has_policy(session, "tidelock-fence"):
        return CheckFinding("fence", Severity.OK, "the API server refuses writes of a former leader")
    found = "ValidatingAdmissionPolicyBinding tidelock-fence is missing: a former leader may still write"
    return CheckFinding("fence", Severity.WRONG, found, INSTALL)


async def _statuses(session: Session) -> CheckFinding:
    """Check which clients may write statuses. See docs/security.md to extend that."""
    if await _has_policy(session, "tidelock-status-writers"):
        return CheckFinding("statuses", Severity.OK, "the API server refuses all but the operator's")
    found = (
        "ValidatingAdmissionPolicyBinding tidelock-status-writers is missing: "
        "a client that may write statuses in one namespace can take capacity from others"
    )
    return CheckFinding("statuses", Severity.NOTE, found, INSTALL)


async def _has_policy(session: Session, name: str) -> bool:
    try:
        await session.client.get(POLICY_BINDINGS.item(name))
    except NotFound:
        return False
    return True


async def _webhook(
    session: Session,
    resource: ApiResource,
    judge: Callable[[Mapping[str, Any]], CheckFinding],
    absent: CheckFinding,
) -> CheckFinding:
    try:
        stored = await session.client.get(resource.item("tidelock"))
    except NotFound:
        return absent
    return judge(msgspec.json.decode(stored))


def admission_finding(webhook: Mapping[str, Any]) -> CheckFinding:
    """Check whether the webhook can be called, and whether it refuses bindings without the operator."""
    if problem := _obstacle(webhook):
        found = f"{problem}: each binding of other schedulers is refused"
        advice = "run the operator with --admission: it sets that"
        return CheckFinding("admission", Severity.WRONG, found, advice)
    if any(each.get("failurePolicy") == "Ignore" for each in webhook["webhooks"]):
        found = (
            "failurePolicy Ignore: while the operator is away, other schedulers may take reserved capacity"
        )
        return CheckFinding("admission", Severity.NOTE, found, _BINDERS)
    return CheckFinding("admission", Severity.OK, "bindings of other schedulers are reviewed")


def answers_finding(webhook: Mapping[str, Any]) -> CheckFinding:
    """Check whether the webhook that answers creations can be called."""
    if problem := _obstacle(webhook):
        found = f"{problem}: spec.answer has no effect"
        advice = "run the operator with --answers: it sets that"
        return CheckFinding("answers", Severity.WRONG, found, advice)
    return CheckFinding("answers", Severity.OK, "creations with spec.answer are answered")


def _obstacle(webhook: Mapping[str, Any]) -> str:
    """Return why the API server can't call a webhook, or an empty text."""
    hooks = webhook.get("webhooks") or ()
    if not hooks or not all(each["clientConfig"].get("caBundle") for each in hooks):
        return "the webhook has no caBundle"
    if not all(TOKEN_PATH.search(_called(each["clientConfig"])) for each in hooks):
        return "the webhook is called without the operator's token"
    return ""


def _called(client_config: Mapping[str, Any]) -> str:
    """Return the address of a webhook: a path of its Service, or a URL."""
    return str(client_config.get("url") or (client_config.get("service") or {}).get("path") or "")


async def _clock(session: Session) -> CheckFinding:
    sent = SystemClock().now()
    theirs = await session.client.time_of_day()
    return clock_finding(theirs, sent, SystemClock().now())


def clock_finding(theirs: float, sent: float, received: float) -> CheckFinding:
    """Compare this machine's clock with the API server's."""
    apart = skew_of(theirs, sent, received)
    if abs(apart) > TOLERANCE:
        found = f"the API server's clock is {apart:+.1f}s from this machine's"
        return CheckFinding(
            "clock", Severity.NOTE, found, "times here are off by that; synchronise both (NTP)"
        )
    return CheckFinding("clock", Severity.OK, "as the API server's")


async def _objects(session: Session) -> CheckFinding:
    count, faulty = 0, []
    for resource, decode in WATCHED.values():
        try:
            listed = await list_all(session.client, resource)
        except NotFound:
            continue  # a missing CRD has a separate row
        count += len(listed)
        read = ((resource.plural, decode(raw).meta) for raw in listed)
        faulty += [(plural, meta) for plural, meta in read if meta.faults]
    return objects_finding(faulty, count)


def objects_finding(faulty: Sequence[tuple[str, ObjectMeta]], count: int) -> CheckFinding:
    """Check for objects with an unreadable part that decisions need."""
    unusable = [f"{plural} {meta.key}: {meta.unreadable}" for plural, meta in faulty if meta.unreadable]
    ignored = [f"{plural} {meta.key}: {meta.faults[0]}" for plural, meta in faulty if not meta.unreadable]
    advice = "the writers of these fields must fix them, see docs/runbooks.md#tidelockobjectsunreadable"
    if unusable:
        return CheckFinding(
            "objects", Severity.WRONG, f"{len(unusable)} can't be used: {_some(unusable)}", advice
        )
    if ignored:
        found = f"{len(ignored)} are used without a part that no decision needs: {_some(ignored)}"
        return CheckFinding("objects", Severity.NOTE, found, advice)
    return CheckFinding("objects", Severity.OK, f"all {count} objects for decisions can be read")


def _some(texts: Sequence[str]) -> str:
    """Join the first of many texts."""
    return "; ".join(texts[:_NAMED]) + (f" and {len(texts) - _NAMED} more" if len(texts) > _NAMED else "")


async def _reservations(session: Session, now: float) -> CheckFinding:
    raw = await list_all(session.client, RESERVATIONS)
    return reservations_finding([decode_reservation(each) for each in raw], now)


def reservations_finding(reservations: Iterable[Reservation], now: float) -> CheckFinding:
    """Check for reservations that a running operator would have processed, or ended, by now."""
    seen = [Seen(each) for each in reservations]
    ignored = [each for each in seen if not each.decided and now - each.reservation.meta.created > _PATIENCE]
    overdue = [
        each
        for each in seen
        if each.active and (ends := each.instant("expiresAt")) is not None and now - ends > _PATIENCE
    ]
    violated = [each for each in seen if each.condition("Violated").get("status") == "True"]
    look = "check whether an operator leads (Lease, above), and its log"
    if ignored:
        return CheckFinding(
            "reservations", Severity.WRONG, f"not processed for {_PATIENCE:.0f}s: {_names(ignored)}", look
        )
    if overdue:
        return CheckFinding(
            "reservations", Severity.WRONG, f"past their end and not ended: {_names(overdue)}", look
        )
    if violated:
        advice = f"keep other binders out: {_BINDERS}, see docs/other-binders.md"
        return CheckFinding(
            "reservations", Severity.NOTE, f"other pods took capacity of {_names(violated)}", advice
        )
    active = sum(each.active for each in seen)
    return CheckFinding("reservations", Severity.OK, f"{len(seen)} there, {active} active, all in order")


def _names(seen: Sequence[Seen]) -> str:
    names = ", ".join(str(each.reservation.key) for each in seen[:_NAMED])
    return names + (f" and {len(seen) - _NAMED} more" if len(seen) > _NAMED else "")


async def _water_levels(session: Session, now: float) -> CheckFinding:
    levels = [decode_water_level(each) for each in await list_all(session.client, WATERLEVELS)]
    if not levels:
        return CheckFinding("water levels", Severity.OK, "none are measured: pods are placed by requests")
    nodes = [decode_node(each) for each in await list_all(session.client, NODES)]
    return levels_finding(levels, nodes, now)


def levels_finding(levels: Iterable[WaterLevel], nodes: Iterable[Node], now: float) -> CheckFinding:
    """Check for nodes of WaterLevels with a missing or stale measurement."""
    stale: dict[str, str] = {}
    count = 0
    all_nodes = list(nodes)
    for level in levels:
        if level.spec is None:
            return CheckFinding(
                "water levels", Severity.WRONG, f"{level.meta.name}: {level.problem}", "fix its spec"
            )
        for node in all_nodes:
            if level.nodes is None or level.nodes.matches(node.name, node.meta.labels):
                count += 1
                worth = measured(node, now, level.spec.staleness_seconds).worth
                if worth is not Quality.FRESH:
                    stale[node.name] = worth.value
    if stale:
        named = ", ".join(f"{name} {worth}" for name, worth in sorted(stale.items())[:_NAMED])
        more = f" and {len(stale) - _NAMED} more" if len(stale) > _NAMED else ""
        found = f"{len(stale)} of {count} nodes have no fresh measurement: {named}{more}"
        advice = "kubectl describe waterlevels shows the error of their source; until then requests count"
        return CheckFinding(
            "water levels", Severity.WRONG if len(stale) == count else Severity.NOTE, found, advice
        )
    return CheckFinding("water levels", Severity.OK, f"{count} nodes are measured, all freshly")
