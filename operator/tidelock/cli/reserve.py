"""`kubectl tidelock reserve`: creates reservations, and waits until they hold or have failed."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec
import typer

from tidelock.cli.documents import Document, read_documents
from tidelock.cli.failure import Failure
from tidelock.cli.options import Context, Format, Kubeconfig, Namespace, Output
from tidelock.cli.options_spec import (
    Instead,
    Node,
    Priority,
    Requests,
    Selector,
    asked,
    pairs,
    refuse_unsound,
    seconds,
)
from tidelock.cli.reservations import ListedReservation, amounts
from tidelock.cli.session import INTERRUPTED, ClusterTarget, Session, ask, create
from tidelock.cli.tables import print_remark, show, show_plain
from tidelock.cli.watch import settling
from tidelock.kube.client import RESERVATIONS
from tidelock.kube.errors import AlreadyExists, ApiError, NotFound
from tidelock.model.answer import answered_status
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key
from tidelock.model.printable import printable
from tidelock.model.reservation import Reservation, decode_reservation

EXAMPLES = """\
kubectl tidelock reserve web-0 -r cpu=2,memory=4Gi      # for the pod web-0
kubectl tidelock reserve web -r cpu=2 --for deployment/web --ttl 1h
kubectl tidelock reserve web-1 -r cpu=2 --node worker-1 --deadline 0s
kubectl tidelock reserve -f reservations.yaml
"""

_GRACE = 10.0  # seconds beyond the deadline of a reservation, for the operator to report it
_CONTROLLERS = {
    "deployment": ("apps/v1", "Deployment"),
    "statefulset": ("apps/v1", "StatefulSet"),
    "daemonset": ("apps/v1", "DaemonSet"),
    "replicaset": ("apps/v1", "ReplicaSet"),
    "job": ("batch/v1", "Job"),
}


Name = Annotated[
    str,
    typer.Argument(
        help="Name of the reservation, and of its owner pod unless --for is given.", metavar="NAME"
    ),
]
Owners = Annotated[
    list[str] | None,
    typer.Option(
        "--for",
        help="Owner: pod/NAME, a workload such as deployment/NAME, or labels such as app=web,tier=db.",
        metavar="OWNER",
    ),
]
Ttl = Annotated[
    str, typer.Option("--ttl", help="Lifetime from Active, such as 90s, 10m, 2h or 1d.", metavar="TIME")
]
Until = Annotated[
    str,
    typer.Option(
        "--until", help="End time instead of --ttl, such as 2026-12-01T00:00:00Z.", metavar="INSTANT"
    ),
]
Deadline = Annotated[
    str,
    typer.Option("--deadline", help="Longest wait for capacity. With 0s it never waits.", metavar="TIME"),
]
CommitWithin = Annotated[
    str,
    typer.Option(
        "--commit-within",
        help="Two phases: without a commit, it ends after this time from Active, such as 30s.",
        metavar="TIME",
    ),
]
Preempt = Annotated[
    bool, typer.Option("--preempt", help="Evict pods and break reservations of lower priority for it.")
]
Retain = Annotated[bool, typer.Option("--retain", help="Keep the object after the end of the reservation.")]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait until the reservation is active, or has failed.")
]


def command(
    name: Name = "",
    filename: Instead = "",
    requests: Requests = "",
    owners: Owners = None,
    node: Node = "",
    selector: Selector = "",
    ttl: Ttl = "10m",
    until: Until = "",
    deadline: Deadline = "1m",
    commit_within: CommitWithin = "",
    priority: Priority = 0,
    preempt: Preempt = False,
    retain: Retain = False,
    wait: Wait = True,
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
) -> None:
    """Create a reservation and wait until it is active. Exit status 1 if it does not become active.

    The wait ends 10 s after the deadline at the latest. Ctrl-C deletes the reservation.
    """
    if bool(name) == bool(filename):
        raise Failure("give either the NAME of a reservation or, with -f, a FILE of Reservations")
    if filename:
        documents = read_documents(filename)
    else:
        options = ReservationOptions(
            name=name,
            asked=asked(requests, node, selector, priority),
            owners=tuple(map(owner, owners or [f"pod/{name}"])),
            ttl=None if until else seconds("--ttl", ttl),
            until=until,
            deadline=seconds("--deadline", deadline),
            commit_within=seconds("--commit-within", commit_within) if commit_within else None,
            preempt=preempt,
            retain=retain,
        )
        documents = [Document(f"reservation/{name}", manifest(options))]
    refuse_unsound(documents, RESERVATIONS.kind)
    target = ClusterTarget(kubeconfig=kubeconfig, context=context, namespace=namespace)
    results = ask(target, lambda session: _reserve(session, documents, wait=wait))
    _show(results, output)
    if wait and not all(result.listed.active or result.listed.planned for result in results):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationOptions:
    """A reservation as the options describe it, with `asked` as a part of its spec. Durations in seconds."""

    name: str
    asked: dict[str, Any]
    owners: tuple[dict[str, Any], ...]
    ttl: int | None
    until: str
    deadline: int
    commit_within: int | None
    preempt: bool
    retain: bool


@dataclass(frozen=True, slots=True)
class Result:
    """The result for a reservation: the newest object, and a sentence about it."""

    listed: ListedReservation
    raw: dict[str, Any]
    text: str


def manifest(options: ReservationOptions) -> dict[str, Any]:
    """Return the Reservation that options describe."""
    given = {
        "ttlSeconds": options.ttl,
        "expireAt": options.until,
        "commit": None if options.commit_within is None else {"withinSeconds": options.commit_within},
        "preemptionPolicy": "PreemptLowerPriority" if options.preempt else "",
        "retention": "Retain" if options.retain else "",
    }
    spec = {
        **options.asked,
        "owners": list(options.owners),
        **{field: value for field, value in given.items() if value},
        "pendingDeadlineSeconds": options.deadline,
        "answer": "Immediate",
    }
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": options.name},
        "spec": spec,
    }


def owner(text: str) -> dict[str, Any]:
    """Parse an owner: `pod/NAME`, a workload, or labels, or raise Failure."""
    kind, slash, name = text.partition("/")
    if slash and name and "=" not in text:
        if kind.lower() in ("pod", "pods", "po"):
            return {"pod": {"name": name}}
        if kind.lower() in _CONTROLLERS:
            version, proper = _CONTROLLERS[kind.lower()]
            return {"controller": {"apiVersion": version, "kind": proper, "name": name}}
        known = ", ".join(_CONTROLLERS)
        raise Failure(f"--for: {text!r}: should begin with pod/, or with one of {known} and a slash")
    return {"selector": {"matchLabels": pairs("--for", text)}}


def progress(listed: ListedReservation) -> str:
    """Return a line about the progress of a reservation."""
    if listed.active:
        return f"holds {amounts(listed.resources)} on {listed.node}"
    return listed.why or listed.phase


async def _reserve(session: Session, documents: Sequence[Document], *, wait: bool) -> list[Result]:
    created: list[bytes] = []
    try:
        for document in documents:
            await _create(session, document, created)
        if not wait:
            return [
                Result(ListedReservation(decode_reservation(raw)), msgspec.json.decode(raw), "created")
                for raw in created
            ]
        with _display() as show_step:
            return list(await asyncio.gather(*(_wait(session, raw, show_step) for raw in created)))
    except asyncio.CancelledError:
        raise Failure(await _undone(session, created), status=INTERRUPTED) from None


async def _undone(session: Session, created: Sequence[bytes]) -> str:
    """Delete the reservations that were created before Ctrl-C. Return a sentence about the result."""
    said = ["interrupted"]
    for each in map(decode_reservation, created):
        namespace, name = each.key
        try:
            async with asyncio.timeout(_GRACE):
                await session.client.delete(RESERVATIONS.item(name, namespace), uid=each.meta.uid)
            said.append(f"reservation/{name} is deleted")
        except NotFound:
            said.append(f"reservation/{name} is gone")
        except (ApiError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            how = f"kubectl delete -n {namespace} reservation {name}"
            said.append(f"reservation/{name} is still there ({why}), delete it with {how}")
    return "; ".join(said)


async def _create(session: Session, document: Document, created: list[bytes]) -> None:
    """Create a reservation and add it to those that were created, even if Ctrl-C comes meanwhile."""
    namespace = document.namespace or session.home
    creation = asyncio.ensure_future(create(session, RESERVATIONS, namespace, document.body))
    try:
        created.append(await asyncio.shield(creation))
    except AlreadyExists as error:
        text = (
            f"reservation {namespace}/{document.name} exists already: delete it first, or choose another name"
        )
        raise Failure(text) from error
    except asyncio.CancelledError:
        with suppress(ApiError):
            created.append(await creation)
        raise


async def _wait(session: Session, raw: bytes, step: Callable[[Reservation], None]) -> Result:
    reservation = decode_reservation(raw)
    answered = replace(reservation, status=answered_status(reservation.meta.annotations))
    if _decided(answered):
        return _result(raw, answered, "")
    deadline = reservation.spec.pending_deadline_seconds if reservation.spec else 0
    newest, end = await settling(
        session,
        RESERVATIONS,
        decode_reservation,
        reservation,
        _decided,
        seconds=deadline + _GRACE,
        step=step,
    )
    return _result(raw, newest, end)


def _decided(reservation: Reservation) -> bool:
    """Return whether the operator has granted the reservation, be it for later, or has refused it."""
    listed = ListedReservation(reservation)
    return listed.active or listed.ended or listed.planned


def _result(raw: bytes, newest: Reservation, end: str) -> Result:
    namespace, name = newest.key
    plain = {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name, "namespace": namespace, "uid": newest.meta.uid},
        "spec": msgspec.json.decode(raw)["spec"],
        "status": newest.status,
    }
    listed = ListedReservation(newest)
    return Result(listed, plain, end or sentence(listed))


def sentence(listed: ListedReservation) -> str:
    """Return a sentence about the result of a reservation."""
    if listed.active:
        ends = listed.instant("expiresAt")
        until = f" until {format_instant(ends)}" if ends is not None else ""
        return f"holds {amounts(listed.resources)} on {listed.node}{until}{_to_commit(listed)}"
    if listed.planned:
        begins = listed.reservation.start_at or 0.0
        return f"will hold {amounts(listed.resources)} on {listed.node} from {format_instant(begins)}"
    if listed.phase == Phase.CONSUMED:
        message = listed.condition("Active").get("message", "")
        return f"nothing is reserved, as its owner exists already: {message}"
    return listed.why


def _to_commit(listed: ListedReservation) -> str:
    """Return until when a reservation in two phases must be committed, and with which token."""
    commit = listed.reservation.status.get("commit", {})
    if listed.condition("Committed").get("status") != "False" or "dueAt" not in commit:
        return ""
    return f", if it is committed by {commit['dueAt']} with the token {commit.get('token')}"


@contextmanager
def _display() -> Iterator[Callable[[Reservation], None]]:
    """Show the progress of reservations: a changing line each, or a line per step without a terminal."""
    if not sys.stderr.isatty():
        printed: dict[Key, str] = {}

        def say(reservation: Reservation) -> None:
            text = progress(ListedReservation(reservation))
            if printed.get(reservation.key) != text:
                printed[reservation.key] = text
                print_remark(f"reservation/{reservation.meta.name}: {text}")

        yield say
        return
    # Both are slow to import, and needed here only.
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    console = Console(stderr=True, highlight=False, markup=False)
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        tasks: dict[Key, Any] = {}

        def draw(reservation: Reservation) -> None:
            text = printable(
                f"reservation/{reservation.meta.name}: {progress(ListedReservation(reservation))}"
            )
            if reservation.key not in tasks:
                tasks[reservation.key] = bar.add_task(text, total=None)
            bar.update(tasks[reservation.key], description=text)

        yield draw


def _show(results: Sequence[Result], output: Output | None) -> None:
    if output in (Output.JSON, Output.YAML):
        plain: Any = [result.raw for result in results]
        show_plain(plain[0] if len(plain) == 1 else plain, output)
        return
    show(*screen(results))


def screen(results: Sequence[Result]) -> list[str]:
    """Return a line about each reservation."""
    return [
        f"reservation/{each.listed.reservation.meta.name} {each.listed.phase}: {each.text}"
        for each in results
    ]
