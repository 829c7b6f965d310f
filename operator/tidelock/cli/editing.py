"""Edits of one field of a Reservation, for commands that answer the operator."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import typer

from tidelock.cli.failure import Failure
from tidelock.cli.options import Output
from tidelock.cli.reservations import ListedReservation
from tidelock.cli.session import ClusterTarget, Session, ask
from tidelock.cli.tables import show, show_plain
from tidelock.cli.watch import settling
from tidelock.kube.client import RESERVATIONS
from tidelock.kube.errors import Conflict, NotFound
from tidelock.model.reservation import Reservation, decode_reservation

_PATIENCE = 30.0  # seconds for the operator to answer


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a reservation, and the operator's answer to it.

    Attributes:
        change: returns the changed part of the spec, or raises Failure.
        answered: whether a version has the answer.
        succeeded: whether the answer is the wanted one.
        sentence: says what the answer is.

    """

    change: Callable[[Reservation], dict[str, Any]]
    answered: Callable[[ListedReservation], bool]
    succeeded: Callable[[ListedReservation], bool]
    sentence: Callable[[ListedReservation], str]


def run(wanted: Edit, name: str, target: ClusterTarget, output: Output | None) -> None:
    """Edit a reservation, print the answer, and exit with status 1 unless it is the wanted one."""
    reservation, end = ask(
        target,
        lambda session: edit(
            session, name, wanted.change, lambda found: wanted.answered(ListedReservation(found))
        ),
    )
    listed = ListedReservation(reservation)
    if output in (Output.JSON, Output.YAML):
        show_plain(_plain(reservation), output)
    else:
        show(f"reservation/{name} {listed.phase}: {end or wanted.sentence(listed)}")
    if not wanted.succeeded(listed):
        raise typer.Exit(1)


async def edit(
    session: Session,
    name: str,
    change: Callable[[Reservation], dict[str, Any]],
    answered: Callable[[Reservation], bool],
) -> tuple[Reservation, str]:
    """Change the spec of a reservation, and follow it until the operator has answered.

    Args:
        session: the cluster and the namespace.
        name: the name of the reservation.
        change: returns the changed part of the spec, or raises Failure.
        answered: whether a version has the answer.

    Returns:
        the newest version and, if there is no answer in time, a sentence about that.

    """
    path = RESERVATIONS.item(name, session.home)
    try:
        found = decode_reservation(await session.client.get(path))
    except NotFound as error:
        if not error.reason:
            raise
        text = f"there is no reservation {session.home}/{name}: it has ended, or was never created"
        raise Failure(text) from error
    patch = {"metadata": {"uid": found.meta.uid}, "spec": change(found)}
    try:
        patched = decode_reservation(await session.client.patch(path, patch))
    except Conflict as error:
        raise Failure(
            f"reservation {session.home}/{name} has been replaced by another one: check it"
        ) from error
    return await settling(session, RESERVATIONS, decode_reservation, patched, answered, seconds=_PATIENCE)


def _plain(reservation: Reservation) -> dict[str, Any]:
    """Return a reservation for programs."""
    namespace, name = reservation.key
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name, "namespace": namespace, "uid": reservation.meta.uid},
        "status": reservation.status,
    }
