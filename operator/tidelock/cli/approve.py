"""`kubectl tidelock approve`: approves the plan of moves of a reservation."""

from typing import Annotated

import typer

from tidelock.cli.editing import Edit, run
from tidelock.cli.failure import Failure
from tidelock.cli.locks import Seen, amounts
from tidelock.cli.options import Context, Format, Kubeconfig, Namespace
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
    name, seen = f"reservation {reservation.key}", Seen(reservation)
    if reservation.spec is not None and reservation.spec.may_move is None:
        raise Failure(f"{name} lets no pods move: set spec.mayMove, see docs/defragmentation.md")
    if seen.plan is None:
        why = seen.condition("MovePlanned").get("message") or seen.why or "it needs none"
        raise Failure(f"{name} has no plan of moves to approve, it is {seen.phase}: {why}")
    return seen.plan.token


def begun(seen: Seen) -> bool:
    """Return whether the moves have begun, or have already brought the capacity."""
    return seen.active or (seen.plan is not None and seen.plan.under_way)


def settled(seen: Seen) -> bool:
    """Return whether the operator has answered to the token."""
    return seen.decided and (begun(seen) or seen.ended or _refused(seen))


def _refused(seen: Seen) -> bool:
    return seen.condition("MovePlanned").get("reason") in ("TokenMismatch", "NoMoves")


def sentence(seen: Seen) -> str:
    """Return a sentence about the result of an approval."""
    if seen.active:
        return f"holds {amounts(seen.resources)} on {seen.node}"
    if seen.plan is not None and seen.plan.under_way:
        return f"moving {seen.plan.text}"
    condition = seen.condition("MovePlanned")
    if _refused(seen):
        return f"not approved, {condition['reason']}: {condition.get('message', '')}"
    return seen.why
