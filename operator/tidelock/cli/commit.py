"""`kubectl tidelock commit`: commits a reservation in two phases, which was prepared before."""

from typing import Annotated

import typer

from tidelock.cli.editing import Edit, run
from tidelock.cli.failure import Failure
from tidelock.cli.options import Context, Format, Kubeconfig, Namespace
from tidelock.cli.reservations import ListedReservation
from tidelock.cli.session import ClusterTarget
from tidelock.model.reservation import Reservation

EXAMPLES = """\
kubectl tidelock commit web-0
kubectl tidelock commit web-0 --token 3d0c9be1-2f0e-4c36-8d4e-6a2f7c1b9f55.1
"""

Name = Annotated[str, typer.Argument(help="Name of the reservation.", metavar="NAME")]
CommitToken = Annotated[
    str,
    typer.Option(
        "--token",
        help="Token of the hold, as printed by reserve. Default: the token of the current hold.",
        show_default=False,
        metavar="TOKEN",
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
    wanted = Edit(
        change=lambda found: {"commit": {"token": token or held_token(found)}},
        answered=answered,
        succeeded=committed,
        sentence=sentence,
    )
    run(wanted, name, target, output)


def held_token(reservation: Reservation) -> str:
    """Return the token of a reservation's current hold, or raise Failure if there is none to commit."""
    name, listed = f"reservation {reservation.key}", ListedReservation(reservation)
    if reservation.spec is not None and reservation.spec.commit is None:
        raise Failure(f"{name} has no two-phase commit: reserve --commit-within creates such reservations")
    token = reservation.status.get("commit", {}).get("token")
    if token is None:
        raise Failure(f"{name} holds no capacity to commit, it is {listed.phase}: {listed.why}")
    return str(token)


def committed(listed: ListedReservation) -> bool:
    """Return whether the operator reports a reservation as committed."""
    return listed.decided and listed.condition("Committed").get("status") == "True"


def answered(listed: ListedReservation) -> bool:
    """Return whether the operator has answered to the token."""
    return committed(listed) or listed.ended or _refused(listed)


def _refused(listed: ListedReservation) -> bool:
    condition = listed.condition("Committed")
    return (
        listed.decided and condition.get("status") == "False" and condition.get("reason") == "TokenMismatch"
    )


def sentence(listed: ListedReservation) -> str:
    """Return a sentence about the result of a commit."""
    condition = listed.condition("Committed")
    if committed(listed):
        return f"committed, it holds until {listed.reservation.status.get('expiresAt', 'it is taken')}"
    return (
        f"not committed, {condition['reason']}: {condition.get('message', '')}"
        if _refused(listed)
        else listed.why
    )
