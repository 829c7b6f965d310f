"""`kubectl tidelock lint`: errors of Tidelock's objects in a file."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Annotated, Any, get_args

import msgspec
import typer
from pydantic import ValidationError

from tidelock.cli.documents import Document, read_documents
from tidelock.cli.failure import Failure
from tidelock.cli.options import Context, File, Format, Kubeconfig, Namespace, Output
from tidelock.cli.session import ClusterTarget, Session, apply_dry_run, ask
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

EXAMPLES = """\
kubectl tidelock lint -f reservations.yaml
kubectl tidelock lint -f reservations.yaml --offline     # without a cluster
helm template . | kubectl tidelock lint -f -
"""

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
    """The errors of a document. It is valid if there are none, and not checked if it is `foreign`."""

    place: str
    problems: tuple[str, ...]
    foreign: bool = False


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
    """Check a file without applying it. Exit status 1 if it has errors.

    FILE has Reservations, groups, schedules, quotas, quotes or WaterLevels. Other kinds are skipped. Types
    and values are checked locally. The API server checks the rules between fields in a dry run.
    """
    documents = read_documents(filename)
    findings = [
        LintFinding(each.place, (), foreign=True)
        if is_foreign(each)
        else LintFinding(each.place, problems_of(each))
        for each in documents
    ]
    sound = [
        each
        for each, found in zip(documents, findings, strict=True)
        if not found.problems and not found.foreign
    ]
    if sound and not offline:
        target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace)
        problems = dict(ask(target, lambda session: _dry_run(session, sound)))
        findings = [replace(each, problems=problems.get(each.place, each.problems)) for each in findings]
    if output in (Output.JSON, Output.YAML):
        show_plain(
            [
                {"document": each.place, "problems": list(each.problems), "skipped": each.foreign}
                for each in findings
            ],
            output,
        )
    else:
        show(*report(findings, offline=offline))
    if any(each.problems for each in findings):
        raise typer.Exit(1)


def is_foreign(document: Document) -> bool:
    """Return whether a document is of an API other than Tidelock's."""
    version = document.body.get("apiVersion")
    group = RESERVATIONS.api_version.partition("/")[0]
    return isinstance(version, str) and bool(version) and version.partition("/")[0] != group


def problems_of(document: Document) -> tuple[str, ...]:
    """Check a document by the types of its kind. Each error names field, value and expectation."""
    known = _KINDS.get(document.kind)
    if known is None:
        kinds = " or ".join(_KINDS)
        return (invalid("kind", document.kind, f"should be {kinds}"),)
    problems = [unknown_field(name, _FIELDS) for name in document.body if name not in _FIELDS]
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
        problems += [_problem(known[1], problem) for problem in error.errors()]
    return tuple(problems)


def _problem(spec: type[Wire], problem: Any) -> str:
    """Return the message of a ValidationError's error in a spec."""
    place = ("spec", *problem["loc"])
    if problem["type"] == "extra_forbidden":
        return unknown_field(_path(place), _fields_at(spec, problem["loc"][:-1]))
    return problem_text({**problem, "loc": place})


def unknown_field(path: str, known: Iterable[str]) -> str:
    """Return the message about a field that does not exist, in the words of the API server."""
    name = path.rpartition(".")[2]
    likely = get_close_matches(name, known, n=1)
    return f'unknown field "{path}"' + (f', did you mean "{likely[0]}"?' if likely else "")


def _path(place: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")


def _fields_at(spec: type[Wire], place: Sequence[str | int]) -> list[str]:
    """Return the names of the fields of the object at a place of a spec, or none if it is not known."""
    here: Any = spec
    for part in place:
        if isinstance(part, str):
            here = next((it for it in here.model_fields.values() if it.alias == part), None)
            here = None if here is None else _model_in(here.annotation)
        if here is None:
            return []
    return [str(field.alias) for field in here.model_fields.values()]


def _model_in(annotation: Any) -> Any:
    """Return the class of the objects in an annotation such as `list[Owner] | None`, or None."""
    if isinstance(annotation, type) and issubclass(annotation, Wire):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)


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
        if each.foreign:
            lines.append(f"{each.place}: skipped, it is not of {RESERVATIONS.api_version}")
        elif each.problems:
            lines += [f"{each.place}: {problem}" for problem in each.problems]
        else:
            lines.append(f"{each.place}: ok{', rules between fields not checked' if offline else ''}")
    return lines
