"""Checks of the state of a cluster: its clock, and objects that are unreadable, overdue or not measured."""

from collections.abc import Iterable, Sequence

from tidelock.cli.finding import CheckFinding, Severity, first_of
from tidelock.cli.installation import BINDERS
from tidelock.cli.reservations import ListedReservation
from tidelock.cli.session import Session
from tidelock.cli.water import measured
from tidelock.clock import SystemClock
from tidelock.kube.client import NODES, RESERVATIONS, WATERLEVELS
from tidelock.kube.errors import NotFound
from tidelock.kube.listing import list_all
from tidelock.kube.skew import TOLERANCE, skew_of
from tidelock.model.meta import ObjectMeta
from tidelock.model.nodes import Node, decode_node
from tidelock.model.reservation import Reservation, decode_reservation
from tidelock.model.usage_annotations import Quality
from tidelock.model.water_level import WaterLevel, decode_water_level
from tidelock.scheduler.informers.informers import WATCHED

_PATIENCE = 30.0  # seconds within which the operator must process a reservation, or end it


async def check_clock(session: Session) -> CheckFinding:
    """Check this machine's clock by the API server's."""
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


async def check_objects(session: Session) -> CheckFinding:
    """Check whether all objects that decisions need can be read."""
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
            "objects", Severity.WRONG, f"{len(unusable)} can't be used: {first_of(unusable, '; ')}", advice
        )
    if ignored:
        found = f"{len(ignored)} are used without a part that no decision needs: {first_of(ignored, '; ')}"
        return CheckFinding("objects", Severity.NOTE, found, advice)
    return CheckFinding("objects", Severity.OK, f"all {count} objects for decisions can be read")


async def check_reservations(session: Session, now: float) -> CheckFinding:
    """Check whether all reservations are processed."""
    raw = await list_all(session.client, RESERVATIONS)
    return reservations_finding([decode_reservation(each) for each in raw], now)


def reservations_finding(reservations: Iterable[Reservation], now: float) -> CheckFinding:
    """Check for reservations that a running operator would have processed, or ended, by now."""
    listed = [ListedReservation(each) for each in reservations]
    ignored = [
        each for each in listed if not each.decided and now - each.reservation.meta.created > _PATIENCE
    ]
    overdue = [
        each
        for each in listed
        if each.active and (ends := each.instant("expiresAt")) is not None and now - ends > _PATIENCE
    ]
    violated = [each for each in listed if each.condition("Violated").get("status") == "True"]
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
        advice = f"keep other binders out: {BINDERS}, see docs/other-binders.md"
        return CheckFinding(
            "reservations", Severity.NOTE, f"other pods took capacity of {_names(violated)}", advice
        )
    active = sum(each.active for each in listed)
    return CheckFinding("reservations", Severity.OK, f"{len(listed)} there, {active} active, all in order")


def _names(listed: Sequence[ListedReservation]) -> str:
    return first_of([str(each.reservation.key) for each in listed])


async def check_water_levels(session: Session, now: float) -> CheckFinding:
    """Check whether the nodes of WaterLevels are measured."""
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
        named = first_of([f"{name} {worth}" for name, worth in sorted(stale.items())])
        found = f"{len(stale)} of {count} nodes have no fresh measurement: {named}"
        advice = "kubectl describe waterlevels shows the error of their source; until then requests count"
        return CheckFinding(
            "water levels", Severity.WRONG if len(stale) == count else Severity.NOTE, found, advice
        )
    return CheckFinding("water levels", Severity.OK, f"{count} nodes are measured, all freshly")
