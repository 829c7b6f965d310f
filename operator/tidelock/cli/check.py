"""`kubectl tidelock check`: whether Tidelock is installed and works, with advice if it does not."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from tidelock.cli.finding import CheckFinding, Severity
from tidelock.cli.installation import Installation, check_lease, check_other_leaders, located
from tidelock.cli.installation_checks import (
    check_crd,
    check_fence,
    check_rights,
    check_status_writers,
)
from tidelock.cli.options import Context, Format, Kubeconfig, Output
from tidelock.cli.replica_checks import check_replicas
from tidelock.cli.session import ClusterTarget, Session, ask
from tidelock.cli.state_checks import check_clock, check_objects, check_reservations, check_water_levels
from tidelock.cli.tables import Table, show, show_plain
from tidelock.cli.webhook_checks import check_admission, check_answers
from tidelock.clock import SystemClock
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.model.api.crds import CUSTOM_RESOURCES

EXAMPLES = """\
kubectl tidelock check
kubectl tidelock check --system-namespace platform
"""


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
    now = SystemClock().now()
    installation = await located(session, installation, now)
    found = await asyncio.gather(
        *(check_crd(session, resource) for resource in CUSTOM_RESOURCES),
        _looked("rights", check_rights, session, installation),
        _looked("Lease", check_lease, session, installation, now),
        _looked("replicas", check_replicas, session, installation),
        _looked("leaders", check_other_leaders, session, installation, now),
        _looked("fence", check_fence, session, installation),
        _looked("statuses", check_status_writers, session),
        _looked("admission", check_admission, session, installation, now),
        _looked("answers", check_answers, session, installation, now),
        _looked("clock", check_clock, session),
        _looked("objects", check_objects, session),
        _looked("reservations", check_reservations, session, now),
        _looked("water levels", check_water_levels, session, now),
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
                matter,
                Severity.WRONG,
                "the API does not exist here",
                "install Tidelock: see docs/installation.md",
            )
        ]
