"""`kubectl tidelock quote`: asks clusters whether they would grant a reservation, and holds nothing."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Any

import typer

from tidelock.cli.documents import Document, read_documents
from tidelock.cli.failure import Failure
from tidelock.cli.options import Format, Kubeconfig, Namespace, Output
from tidelock.cli.options_spec import (
    Instead,
    Node,
    Priority,
    Requests,
    Selector,
    asked,
    refuse_unsound,
    seconds,
)
from tidelock.cli.session import ClusterTarget, Session, create, reach, run
from tidelock.cli.tables import Table, show, show_plain, span
from tidelock.cli.watch import settling
from tidelock.kube.client import RESERVATIONQUOTES, RESERVATIONS
from tidelock.kube.errors import NotFound
from tidelock.model.api.reservation import Ask
from tidelock.model.api.reservation_quote import QuoteOccupant, ReservationQuoteStatus
from tidelock.model.api.wire import Condition
from tidelock.model.instants import format_instant, from_datetime
from tidelock.model.reservation_quote import decode_quote

EXAMPLES = """\
kubectl tidelock quote -r cpu=500m,memory=1Gi
kubectl tidelock quote -r nvidia.com/gpu=8 --context east --context west
kubectl tidelock quote -f reservations.yaml
"""

_TTL = 60  # seconds after which a quote is deleted if this command can't delete it
_ASKED = frozenset(str(each.alias) for each in Ask.model_fields.values())

Contexts = Annotated[
    list[str] | None,
    typer.Option(
        "--context",
        help="Context of the kubeconfig. Several ask all their clusters at once. Default: the current one.",
        metavar="CONTEXT",
        show_default=False,
    ),
]
Timeout = Annotated[str, typer.Option("--timeout", help="Longest wait for the answer.", metavar="TIME")]


def command(
    filename: Instead = "",
    requests: Requests = "",
    node: Node = "",
    selector: Selector = "",
    priority: Priority = 0,
    timeout: Timeout = "10s",
    namespace: Namespace = "",
    context: Contexts = None,
    kubeconfig: Kubeconfig = "",
    output: Format = None,
) -> None:
    """Ask whether a reservation would be granted now, on which node, and how many fit. Nothing is held.

    FILE has Reservations or ReservationQuotes. Exit status 1 if no cluster would grant one of them.
    """
    if bool(requests) == bool(filename):
        raise Failure("give either --requests or, with -f, a FILE of Reservations or ReservationQuotes")
    if filename:
        questions = [QuoteQuestion(each.name, each) for each in read_documents(filename)]
    else:
        questions = [QuoteQuestion(requests, _document(asked(requests, node, selector, priority)))]
    refuse_unsound([each.document for each in questions], RESERVATIONS.kind, RESERVATIONQUOTES.kind)
    targets = [
        ClusterTarget(kubeconfig=kubeconfig, context=each, namespace=namespace) for each in context or [""]
    ]
    answers = run(_ask(targets, questions, seconds("--timeout", timeout)))
    if output in (Output.JSON, Output.YAML):
        show_plain([plain(each) for each in answers], output)
    else:
        show(*screen(answers))
    given = {each.question for each in answers if each.feasible}
    if not given.issuperset(questions):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, eq=False)
class QuoteQuestion:
    """A question: a Reservation or a ReservationQuote, and its name on the screen."""

    label: str
    document: Document

    @property
    def spec(self) -> dict[str, Any]:
        """The spec of the quote to create."""
        spec: dict[str, Any] = self.document.body["spec"]
        if self.document.body["kind"] == RESERVATIONQUOTES.kind:
            return {"ttlSeconds": _TTL} | spec
        return {"ttlSeconds": _TTL} | {name: value for name, value in spec.items() if name in _ASKED}


@dataclass(frozen=True, slots=True)
class QuoteAnswer:
    """The answer of a cluster, as the status of a quote, or its error. An empty context is the current."""

    question: QuoteQuestion
    context: str = ""
    raw_status: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    @property
    def status(self) -> ReservationQuoteStatus:
        """The answer in its decoded form."""
        return ReservationQuoteStatus.model_validate(self.raw_status)

    @property
    def verdict(self) -> Condition | None:
        """The condition with the answer and its reason."""
        return next((each for each in self.status.conditions if each.type == "Feasible"), None)

    @property
    def feasible(self) -> bool:
        """Whether the reservation would be granted now."""
        return self.verdict is not None and self.verdict.status == "True"


def _document(spec: dict[str, Any]) -> Document:
    body = {
        "apiVersion": RESERVATIONQUOTES.api_version,
        "kind": RESERVATIONQUOTES.kind,
        "metadata": {"name": "quote"},
        "spec": spec,
    }
    return Document("quote", body)


async def _ask(
    targets: Sequence[ClusterTarget], questions: Sequence[QuoteQuestion], patience: int
) -> list[QuoteAnswer]:
    """Ask all clusters at once. A failure of one of several does not stop the others."""

    async def one(target: ClusterTarget) -> list[QuoteAnswer]:
        async def work(session: Session) -> list[QuoteAnswer]:
            return [
                QuoteAnswer(each, target.context, await _status(session, each, patience))
                for each in questions
            ]

        try:
            return await reach(target, work)
        except Failure as failure:
            if len(targets) == 1:
                raise
            return [QuoteAnswer(each, target.context, failure=str(failure)) for each in questions]

    return [answer for answers in await asyncio.gather(*map(one, targets)) for answer in answers]


async def _status(session: Session, question: QuoteQuestion, patience: int) -> dict[str, Any]:
    """Ask, and delete the quote afterwards, or raise Failure if there is no answer."""
    body = {
        "apiVersion": RESERVATIONQUOTES.api_version,
        "kind": RESERVATIONQUOTES.kind,
        "metadata": {"generateName": "quote-"},
        "spec": question.spec,
    }
    namespace = question.document.namespace or session.home
    first = decode_quote(await create(session, RESERVATIONQUOTES, namespace, body))
    try:
        newest, problem = await settling(
            session,
            RESERVATIONQUOTES,
            decode_quote,
            first,
            lambda quote: quote.answered_at is not None,
            seconds=patience,
        )
    finally:
        with suppress(NotFound):
            path = RESERVATIONQUOTES.item(first.meta.name, namespace)
            await session.client.delete(path, uid=first.meta.uid)
    if problem:
        raise Failure(problem)
    return newest.status


def plain(answer: QuoteAnswer) -> dict[str, Any]:
    """Return an answer for programs."""
    fields: dict[str, Any] = {"context": answer.context} if answer.context else {}
    fields |= {"asked": answer.question.label, "feasible": answer.feasible, "spec": answer.question.spec}
    return fields | ({"error": answer.failure} if answer.failure else {"status": answer.raw_status})


def screen(answers: Sequence[QuoteAnswer]) -> list[Table | str]:
    """Return the table, and the sentences with the obstacles below it."""
    several = len({each.context for each in answers}) > 1
    columns = ["CONTEXT"] * several + ["ASKED", "FITS", "NODE", "COUNT", "VALID UNTIL"]
    rows = [[each.context] * several + _row(each) for each in answers]
    parts: list[Table | str] = [
        Table(columns, rows, frozenset({"COUNT"}), optional=("VALID UNTIL",), names=frozenset({"NODE"}))
    ]
    for answer in answers:
        name = f"{answer.context}: {answer.question.label}" if several else answer.question.label
        texts = [f"{name}: {sentence}" for sentence in sentences(answer)]
        parts += ["", *texts] if texts else []
    return parts


def _row(answer: QuoteAnswer) -> list[str]:
    status = answer.status
    count = "" if status.count is None else str(status.count)
    return [answer.question.label, _fits(answer), status.node_name or "", count, _instant(status.valid_until)]


def _fits(answer: QuoteAnswer) -> str:
    """Return when the reservation fits."""
    status, verdict = answer.status, answer.verdict
    if verdict is None or verdict.status == "Unknown":
        return "unknown"
    if answer.feasible:
        return "now"
    if status.fits_at is None or status.answered_at is None:
        return "no"
    return f"in {span((status.fits_at - status.answered_at).total_seconds())}"


def sentences(answer: QuoteAnswer) -> Iterator[str]:
    """Yield why it does not fit, and the occupants of the node that lacks the least."""
    if answer.failure:
        yield answer.failure
    if answer.verdict is None or answer.feasible:
        return
    yield f"{answer.verdict.reason}: {answer.verdict.message}"
    status = answer.status
    if status.earliest_start is not None and status.answered_at is not None:
        wait = span((status.earliest_start - status.answered_at).total_seconds())
        yield f"by amounts alone, enough capacity may be free in {wait} at the earliest"
    blockers = status.blockers
    if blockers and blockers.node_name:
        yield f"{blockers.node_name} lacks {_amounts(blockers.shortfall)}"
        yield from (f"reservation {_occupant(each)}" for each in blockers.locks)
        yield from (f"pod {_occupant(each)}" for each in blockers.pods)


def _occupant(occupant: QuoteOccupant) -> str:
    until = f" until {_instant(occupant.expires_at)}" if occupant.expires_at else ""
    return f"{occupant.namespace}/{occupant.name} has {_amounts(occupant.resources)} there{until}"


def _instant(moment: datetime | None) -> str:
    return format_instant(from_datetime(moment)) if moment else ""


def _amounts(resources: dict[str, str] | None) -> str:
    return ",".join(f"{name}={amount}" for name, amount in (resources or {}).items())
