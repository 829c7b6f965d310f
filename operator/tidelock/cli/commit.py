"""`kubectl tidelock commit`: commits a reservation in two phases, which was prepared before."""

from typing import Annotated, Any

import typer

from tidelock.cli.locks import Seen
from tidelock.cli.options import Context, Format, Kubeconfig, Namespace, Output
from tidelock.cli.session import ClusterTarget, Failure, Session, ask
from tidelock.cli.tables import show, show_plain
from tidelock.cli.watch import settling
from tidelock.kube.client import RESERVATIONS
from tidelock.kube.errors import Conflict, NotFound
from tidelock.model.reservation import Reservation, decode_reservation

_PATIENCE = 30.0  # seconds for the operator to answer

Name = Annotated[str, typer.Argument(help="Name of the reservation.")]
CommitToken = Annotated[
    str,
    typer.Option(
        "--token",
        help="Token of the hold, as printed by reserve. Default: the token of the current hold.",
        show_default=False,
    ),
]


def command(
    name: Name,
    token: CommitToken = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
) -> None:
    """Commit a reservation of reserve --commit-within, and wait for the result. Exit status 1 if it fails."""
    target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace)
    reservation, end = ask(target, lambda session: _commit(session, name, token))
    seen = Seen(reservation)
    if output in (Output.JSON, Output.YAML):
        show_plain(plain(reservation), output)
    else:
        show(f"reservation/{name} {seen.phase}: {end or sentence(seen)}")
    if not committed(seen):
        raise typer.Exit(1)


async def _commit(session: Session, name: str, token: str) -> tuple[Reservation, str]:
    """Set the token of a reservation, and follow it until the token counts, or certainly does not."""
    path = RESERVATIONS.item(name, session.home)
    try:
        found = decode_reservation(await session.client.get(path))
    except NotFound as error:
        if not error.reason:
            raise
        text = f"there is no reservation {session.home}/{name}: it has ended, or was never created"
        raise Failure(text) from error
    token = token or str(held_token(found))
    patch = {"metadata": {"uid": found.meta.uid}, "spec": {"commit": {"token": token}}}
    try:
        patched = decode_reservation(await session.client.patch(path, patch))
    except Conflict as error:
        raise Failure(
            f"reservation {session.home}/{name} has been replaced by another one: check it"
        ) from error
    return await settling(
        session,
        RESERVATIONS,
        decode_reservation,
        patched,
        lambda reservation: answered(Seen(reservation)),
        seconds=_PATIENCE,
    )


def held_token(reservation: Reservation) -> str:
    """Return the token of a reservation's current hold, or raise Failure if there is none to commit."""
    name, seen = f"reservation {reservation.key}", Seen(reservation)
    if reservation.spec is not None and reservation.spec.commit is None:
        raise Failure(f"{name} has no two-phase commit: reserve --commit-within creates such reservations")
    token = reservation.status.get("commit", {}).get("token")
    if token is None:
        raise Failure(f"{name} holds no capacity to commit, it is {seen.phase}: {seen.why}")
    return str(token)


def committed(seen: Seen) -> bool:
    """Return whether the operator reports a reservation as committed."""
    return seen.decided and seen.condition("Committed").get("status") == "True"


def answered(seen: Seen) -> bool:
    """Return whether the operator has answered to the token."""
    return committed(seen) or seen.ended or _refused(seen)


def _refused(seen: Seen) -> bool:
    condition = seen.condition("Committed")
    return seen.decided and condition.get("status") == "False" and condition.get("reason") == "TokenMismatch"


def sentence(seen: Seen) -> str:
    """Return a sentence about the result of a commit."""
    condition = seen.condition("Committed")
    if committed(seen):
        return f"committed, it holds until {seen.reservation.status.get('expiresAt', 'it is taken')}"
    return (
        f"not committed, {condition['reason']}: {condition.get('message', '')}"
        if _refused(seen)
        else seen.why
    )


def plain(reservation: Reservation) -> dict[str, Any]:
    """Return a reservation for programs."""
    namespace, name = reservation.key
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name, "namespace": namespace, "uid": reservation.meta.uid},
        "status": reservation.status,
    }
