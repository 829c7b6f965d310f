"""`kubectl tidelock commit`: keeps a lock in two phases, which was prepared before."""

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

Name = Annotated[str, typer.Argument(help="Name of the lock.")]
CommitToken = Annotated[
    str,
    typer.Option(
        "--token",
        help="Token of the hold that is meant, as reserve told it; default: that of the room it has now.",
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
    """Commit a lock that was reserved with --commit-within, and wait for the answer; else status 1."""
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
    """Give the lock its token, and follow it until that counts, or certainly does not."""
    path = RESERVATIONS.item(name, session.home)
    try:
        found = decode_reservation(await session.client.get(path))
    except NotFound as error:
        if not error.reason:
            raise
        text = f"there is no reservation {session.home}/{name}: it has ended, or was never made"
        raise Failure(text) from error
    token = token or str(held_token(found))
    patch = {"metadata": {"uid": found.meta.uid}, "spec": {"commit": {"token": token}}}
    try:
        patched = decode_reservation(await session.client.patch(path, patch))
    except Conflict as error:
        raise Failure(f"reservation {session.home}/{name} is another one meanwhile: look at it") from error
    return await settling(
        session,
        RESERVATIONS,
        decode_reservation,
        patched,
        lambda reservation: answered(Seen(reservation)),
        seconds=_PATIENCE,
    )


def held_token(reservation: Reservation) -> str:
    """Give the token of the room that a lock has now; raises Failure if there is none to commit."""
    name, seen = f"reservation {reservation.key}", Seen(reservation)
    if reservation.spec is not None and reservation.spec.commit is None:
        raise Failure(f"{name} is no lock in two phases: such are made by reserve --commit-within")
    token = reservation.status.get("commit", {}).get("token")
    if token is None:
        raise Failure(f"{name} has no room that could be committed, it is {seen.phase}: {seen.why}")
    return str(token)


def committed(seen: Seen) -> bool:
    """Whether the operator says that a lock is committed."""
    return seen.decided and seen.condition("Committed").get("status") == "True"


def answered(seen: Seen) -> bool:
    """Whether the operator has said what it makes of the token."""
    return committed(seen) or seen.ended or _refused(seen)


def _refused(seen: Seen) -> bool:
    told = seen.condition("Committed")
    return seen.decided and told.get("status") == "False" and told.get("reason") == "TokenMismatch"


def sentence(seen: Seen) -> str:
    """Say what became of a commit."""
    told = seen.condition("Committed")
    if committed(seen):
        return f"committed, it holds until {seen.reservation.status.get('expiresAt', 'it is taken')}"
    return f"not committed, {told['reason']}: {told.get('message', '')}" if _refused(seen) else seen.why


def plain(reservation: Reservation) -> dict[str, Any]:
    """Write a lock for programs."""
    namespace, name = reservation.key
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name, "namespace": namespace, "uid": reservation.meta.uid},
        "status": reservation.status,
    }
