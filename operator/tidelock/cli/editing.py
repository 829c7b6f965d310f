"""Edits of one field of a Reservation, for commands that answer the operator."""

from collections.abc import Callable
from typing import Any

from tidelock.cli.failure import Failure
from tidelock.cli.session import Session
from tidelock.cli.watch import settling
from tidelock.kube.client import RESERVATIONS
from tidelock.kube.errors import Conflict, NotFound
from tidelock.model.reservation import Reservation, decode_reservation

_PATIENCE = 30.0  # seconds for the operator to answer


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


def plain(reservation: Reservation) -> dict[str, Any]:
    """Return a reservation for programs."""
    namespace, name = reservation.key
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name, "namespace": namespace, "uid": reservation.meta.uid},
        "status": reservation.status,
    }
