"""`kubectl tidelock lint`: errors of Tidelock's objects in a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import typer
from pydantic import ValidationError

from tidelock.cli.documents import Document, read_documents
from tidelock.cli.options import Context, File, Format, Kubeconfig, Namespace, Output
from tidelock.cli.session import ClusterTarget, Failure, Session, apply_dry_run, ask
from tidelock.cli.tables import show, show_plain
from tidelock.framework.config_file import invalid, problem_text
from tidelock.kube.client import (
    RESERVATIONGROUPS,
    RESERVATIONQUOTAS,
    RESERVATIONQUOTES,
    RESERVATIONS,
    RESERVATIONSCHEDULES,
    WATERLEVELS,
    ApiResource,
)
from tidelock.kube.errors import ApiError, Forbidden, Invalid
from tidelock.model.api.reservation import ReservationSpec
from tidelock.model.api.reservation_group import ReservationGroupSpec
from tidelock.model.api.reservation_quota import ReservationQuotaSpec
from tidelock.model.api.reservation_quote import ReservationQuoteSpec
from tidelock.model.api.reservation_schedule import ReservationScheduleSpec
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.api.wire import Wire

_KINDS: dict[str, tuple[ApiResource, type[Wire]]] = {
    f"{resource.api_version} {resource.kind}": (resource, spec)
    for resource, spec in (
        (RESERVATIONS, ReservationSpec),
        (RESERVATIONGROUPS, ReservationGroupSpec),
        (RESERVATIONSCHEDULES, ReservationScheduleSpec),
        (WATERLEVELS, WaterLevelSpec),
        (RESERVATIONQUOTAS, ReservationQuotaSpec),
        (RESERVATIONQUOTES, ReservationQuoteSpec),
    )
}
_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


@dataclass(frozen=True, slots=True)
class LintFinding:
    """The errors of a document. It is valid if there are none."""

    place: str
    problems: tuple[str, ...]


def command(
    filename: File,
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Do not use the API server, and skip the rules between fields (CEL)."),
    ] = False,
) -> None:
    """Check a file of Tidelock's objects without applying it. Exit status 1 if it has errors.

    FILE has Reservations, groups, schedules, quotas, quotes or WaterLevels. Types and values are checked
    locally. The API server checks the rules between fields in a dry run.
    """
    documents = read_documents(filename)
    findings = [LintFinding(each.place, problems_of(each)) for each in documents]
    sound = [each for each, found in zip(documents, findings, strict=True) if not found.problems]
    if sound and not offline:
        target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace)
        problems = dict(ask(target, lambda session: _dry_run(session, sound)))
        findings = [LintFinding(each.place, problems.get(each.place, each.problems)) for each in findings]
    if output in (Output.JSON, Output.YAML):
        show_plain([{"document": each.place, "problems": list(each.problems)} for each in findings], output)
    else:
        show(*report(findings, offline=offline))
    if any(each.problems for each in findings):
        raise typer.Exit(1)


def problems_of(document: Document) -> tuple[str, ...]:
    """Check a document by the types of its kind. Each error names field, value and expectation."""
    known = _KINDS.get(document.kind)
    if known is None:
        kinds = " or ".join(_KINDS)
        return (invalid("kind", document.kind, f"should be {kinds}"),)
    problems = [
        invalid(name, document.body[name], "is unknown") for name in document.body if name not in _FIELDS
    ]
    if not document.name:
        problems.append("metadata.name: Required value")
    spec = document.body.get("spec")
    if spec is None:
        return (*problems, "spec: Required value")
    if not isinstance(spec, dict):
        return (*problems, invalid("spec", spec, "should be an object"))
    try:
        # As JSON and strictly, since the API server refuses "600" for a number, too.
        read = known[1].model_validate_json(
            msgspec.json.encode(spec), strict=True, by_alias=True, by_name=False
        )
        if isinstance(read, ReservationSpec) and read.conflict:
            problems.append(read.conflict)
    except ValidationError as error:
        problems += [
            problem_text({**problem, "loc": ("spec", *problem["loc"])}) for problem in error.errors()
        ]
    return tuple(problems)


async def _dry_run(session: Session, documents: Sequence[Document]) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.place, await _diagnosis(session, each)) for each in documents]


async def _diagnosis(session: Session, document: Document) -> tuple[str, ...]:
    """Return the API server's objections to a document."""
    resource, _ = _KINDS[document.kind]
    namespace = document.namespace or session.home
    try:
        await apply_dry_run(session, resource, document.name, namespace, document.body)
    except Invalid as error:
        return (error.message,)
    except Forbidden as error:
        raise Failure(f"{error.message}; --offline checks all but the rules between fields") from error
    except ApiError as error:
        if error.status == 400:  # noqa: PLR2004 -- Bad Request
            return (error.message,)
        raise
    return ()


def report(findings: Sequence[LintFinding], *, offline: bool) -> list[str]:
    """Return the errors of each document, or that it has none."""
    lines = []
    for each in findings:
        if each.problems:
            lines += [f"{each.place}: {problem}" for problem in each.problems]
        else:
            lines.append(f"{each.place}: ok{', rules between fields not checked' if offline else ''}")
    return lines
