"""`kubectl tidelock approve`: approves the plan of moves of a reservation."""

from typing import Annotated

import typer

from tidelock.cli.editing import Edit, run
from tidelock.cli.failure import Failure
from tidelock.cli.options import Context, Format, Kubeconfig, Namespace
from tidelock.cli.reservations import ListedReservation, amounts
from tidelock.cli.session import ClusterTarget
from tidelock.model.reservation import Reservation

EXAMPLES = """\
kubectl tidelock approve web-0        # the plan that status shows
kubectl tidelock approve web-0 --token 5b1f0a9c3d27
"""

Name = Annotated[str, typer.Argument(help="Name of the reservation.", metavar="NAME")]
PlanToken = Annotated[
    str,
    typer.Option(
        "--token",
        help="Token of the plan, as printed by status. Default: the token of the current plan.",
        show_default=False,
        metavar="TOKEN",
    ),
]


def command(
    name: Name,
    token: PlanToken = "",
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
) -> None:
    """Approve the plan of moves of a reservation, and wait until the moves begin.

    The pods of the plan are evicted, so the reservation gets their capacity. Exit status 1 if the plan is not
    carried out.
    """
    target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace)
    wanted = Edit(
        change=lambda found: {"mayMove": {"approve": token or planned_token(found)}},
        answered=settled,
        succeeded=begun,
        sentence=sentence,
    )
    run(wanted, name, target, output)


def planned_token(reservation: Reservation) -> str:
    """Return the token of a reservation's plan, or raise Failure if there is none to approve."""
    name, listed = f"reservation {reservation.key}", ListedReservation(reservation)
    if reservation.spec is not None and reservation.spec.may_move is None:
        raise Failure(f"{name} lets no pods move: set spec.mayMove, see docs/defragmentation.md")
    if listed.plan is None:
        why = listed.condition("MovePlanned").get("message") or listed.why or "it needs none"
        raise Failure(f"{name} has no plan of moves to approve, it is {listed.phase}: {why}")
    return listed.plan.token


def begun(listed: ListedReservation) -> bool:
    """Return whether the moves have begun, or have already brought the capacity."""
    return listed.active or (listed.plan is not None and listed.plan.under_way)


def settled(listed: ListedReservation) -> bool:
    """Return whether the operator has answered to the token."""
    return listed.decided and (begun(listed) or listed.ended or _refused(listed))


def _refused(listed: ListedReservation) -> bool:
    return listed.condition("MovePlanned").get("reason") in ("TokenMismatch", "NoMoves")


def sentence(listed: ListedReservation) -> str:
    """Return a sentence about the result of an approval."""
    if listed.active:
        return f"holds {amounts(listed.resources)} on {listed.node}"
    if listed.plan is not None and listed.plan.under_way:
        return f"moving {listed.plan.text}"
    condition = listed.condition("MovePlanned")
    if _refused(listed):
        return f"not approved, {condition['reason']}: {condition.get('message', '')}"
    return listed.why
