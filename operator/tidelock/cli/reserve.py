"""`kubectl tidelock reserve`: creates locks, and waits until they hold or it is certain that they don't."""

import asyncio
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tidelock.cli.connect import MANAGER, Failure, Session, Target, ask
from tidelock.cli.documents import Document, read_documents
from tidelock.cli.following import followed
from tidelock.cli.lint import problems_of
from tidelock.cli.locks import Seen, amounts
from tidelock.cli.options import Context, Format, Kubeconfig, Namespace, Output
from tidelock.cli.tables import show, show_plain, tell, terminal
from tidelock.kube.client import RESERVATIONS
from tidelock.kube.errors import AlreadyExists
from tidelock.model.instants import format_instant
from tidelock.model.locks import Reservation, decode_reservation
from tidelock.model.meta import Key
from tidelock.model.reservations import Phase

_GRACE = 30.0  # seconds beyond the deadline of a lock, for the operator to say so
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_CONTROLLERS = {
    "deployment": ("apps/v1", "Deployment"),
    "statefulset": ("apps/v1", "StatefulSet"),
    "daemonset": ("apps/v1", "DaemonSet"),
    "replicaset": ("apps/v1", "ReplicaSet"),
    "job": ("batch/v1", "Job"),
}


def command(
    name: Annotated[
        str, typer.Argument(help="Name of the lock, and of its pod unless --for says another.")
    ] = "",
    filename: Annotated[
        str,
        typer.Option(
            "--filename", "-f", help="Reservations to create instead; -: standard input.", metavar="FILE"
        ),
    ] = "",
    requests: Annotated[
        str, typer.Option("--requests", "-r", help="Room to hold.", metavar="cpu=2,memory=4Gi")
    ] = "",
    owners: Annotated[
        list[str] | None,
        typer.Option(
            "--for",
            help="Who may take it: pod/NAME, a workload as deployment/NAME, or labels as app=web,tier=db.",
            metavar="OWNER",
        ),
    ] = None,
    node: Annotated[
        str, typer.Option("--node", help="Node to hold it on; default: any.", show_default=False)
    ] = "",
    selector: Annotated[
        str, typer.Option("--node-selector", help="Labels of the node.", metavar="KEY=VALUE,...")
    ] = "",
    ttl: Annotated[
        str, typer.Option("--ttl", help="How long it holds once it is active: 90s, 10m, 2h, 1d.")
    ] = "10m",
    until: Annotated[
        str,
        typer.Option("--until", help="When it ends, instead of --ttl: 2026-12-01T00:00:00Z.", metavar="TIME"),
    ] = "",
    deadline: Annotated[
        str, typer.Option("--deadline", help="How long it may wait for room; 0s: now or never.")
    ] = "1m",
    priority: Annotated[int, typer.Option("--priority", help="Importance; pods above it may break it.")] = 0,
    preempt: Annotated[bool, typer.Option("--preempt", help="Evict pods of lower priority for it.")] = False,
    retain: Annotated[
        bool, typer.Option("--retain", help="Keep the object as a tombstone after its end.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it holds.")] = True,
    namespace: Namespace = "",
    context: Context = "",
    kubeconfig: Kubeconfig = "",
    output: Format = None,
) -> None:
    """Create a lock and wait until it holds; status 1 if it does not."""
    if bool(name) == bool(filename):
        raise Failure("give either the NAME of a lock or, with -f, a FILE of Reservations")
    if filename:
        documents = read_documents(filename)
    else:
        wish = Wish(
            name=name,
            requests=pairs("--requests", requests),
            owners=tuple(map(owner, owners or [f"pod/{name}"])),
            node=node,
            node_selector=pairs("--node-selector", selector) if selector else {},
            ttl=None if until else seconds("--ttl", ttl),
            until=until,
            deadline=seconds("--deadline", deadline),
            priority=priority,
            preempt=preempt,
            retain=retain,
        )
        documents = [Document(f"reservation/{name}", manifest(wish))]
    problems = [f"{each.place}: {problem}" for each in documents for problem in problems_of(each)]
    if problems:
        raise Failure("; ".join(problems))
    for each in documents:
        if each.body["kind"] != RESERVATIONS.kind:
            raise Failure(f"{each.place}: only Reservations are reserved: apply it with kubectl")
    target = Target(kubeconfig=kubeconfig, context=context, namespace=namespace)
    results = ask(target, lambda session: _reserve(session, documents, wait=wait))
    _show(results, output)
    if wait and not all(result.seen.active for result in results):
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A lock as the options describe it; durations are in seconds."""

    name: str
    requests: dict[str, str]
    owners: tuple[dict[str, Any], ...]
    node: str
    node_selector: dict[str, str]
    ttl: int | None
    until: str
    deadline: int
    priority: int
    preempt: bool
    retain: bool


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a lock: the newest object, and a sentence about it."""

    seen: Seen
    raw: dict[str, Any]
    text: str


def manifest(wish: Wish) -> dict[str, Any]:
    """Write the Reservation that was wished for."""
    spec: dict[str, Any] = {"resources": wish.requests, "owners": list(wish.owners)}
    given = {
        "nodeName": wish.node,
        "nodeSelector": wish.node_selector,
        "ttlSeconds": wish.ttl,
        "expireAt": wish.until,
        "priority": wish.priority,
        "preemptionPolicy": "PreemptLowerPriority" if wish.preempt else "",
        "retention": "Retain" if wish.retain else "",
    }
    spec |= {field: value for field, value in given.items() if value}
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": wish.name},
        "spec": spec | {"pendingDeadlineSeconds": wish.deadline},
    }


def pairs(option: str, text: str) -> dict[str, str]:
    """Read `a=b,c=d`; raises Failure."""
    items = [item.partition("=") for item in text.split(",")] if text else []
    if not items or not all(key and sign and value for key, sign, value in items):
        raise Failure(f"{option}: {text!r}: should be name=value,name=value, such as cpu=2,memory=4Gi")
    return {key.strip(): value.strip() for key, _, value in items}


def seconds(option: str, text: str) -> int:
    """Read a duration such as `90s`, `10m` or `1h30m` as seconds; raises Failure."""
    parts = re.findall(r"(\d+)([smhd])", text)
    if not parts or "".join(count + unit for count, unit in parts) != text:
        raise Failure(f"{option}: {text!r}: should be a duration such as 90s, 10m, 1h30m or 1d")
    return sum(int(count) * _UNITS[unit] for count, unit in parts)


def owner(text: str) -> dict[str, Any]:
    """Read an owner: `pod/NAME`, a workload, or labels; raises Failure."""
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


def progress(seen: Seen) -> str:
    """Say in a line how far a lock is."""
    if seen.active:
        return f"holds {amounts(seen.resources)} on {seen.node}"
    return seen.why or seen.phase


async def _reserve(session: Session, documents: Sequence[Document], *, wait: bool) -> list[Result]:
    created = [await _create(session, document) for document in documents]
    if not wait:
        return [Result(Seen(decode_reservation(raw)), msgspec.json.decode(raw), "created") for raw in created]
    with _display() as show_step:
        return list(await asyncio.gather(*(_wait(session, raw, show_step) for raw in created)))


async def _create(session: Session, document: Document) -> bytes:
    namespace = str(document.metadata.get("namespace") or session.home)
    try:
        return await session.client.request(
            "POST",
            RESERVATIONS.collection(namespace),
            params={"fieldValidation": "Strict", "fieldManager": MANAGER},
            body=document.body,
        )
    except AlreadyExists as error:
        text = (
            f"reservation {namespace}/{document.name} is there already: delete it first, or take another name"
        )
        raise Failure(text) from error


class _Follower:
    """Learns each version of one lock; `found` is done when it is certain what becomes of it."""

    def __init__(self, uid: str, step: Callable[[Reservation], None]) -> None:
        self._uid = uid
        self._step = step
        self.newest: Reservation | None = None
        self.found: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def upsert(self, old: Reservation | None, new: Reservation) -> None:
        del old
        if new.meta.uid != self._uid or self.found.done():
            return
        self.newest = new
        self._step(new)
        seen = Seen(new)
        if seen.active or seen.ended:
            self.found.set_result("")

    def remove(self, last: Reservation) -> None:
        if last.meta.uid == self._uid and not self.found.done():
            self.found.set_result("it was deleted before it held")

    def synced(self) -> None:
        pass


async def _wait(session: Session, raw: bytes, step: Callable[[Reservation], None]) -> Result:
    lock = decode_reservation(raw)
    namespace, name = lock.key
    follower = _Follower(lock.meta.uid, step)
    follower.upsert(None, lock)
    deadline = lock.spec.pending_deadline_seconds if lock.spec else 0
    narrowed = {"namespace": namespace, "field_selector": f"metadata.name={name}"}
    async with followed(session, RESERVATIONS, decode_reservation, follower, **narrowed):
        try:
            async with asyncio.timeout(deadline + _GRACE):
                end = await follower.found
        except TimeoutError:
            end = "no decision in time: see with kubectl tidelock check whether the operator runs"
    newest = Seen(follower.newest or lock)
    plain = {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name, "namespace": namespace, "uid": newest.lock.meta.uid},
        "spec": msgspec.json.decode(raw)["spec"],
        "status": newest.lock.status,
    }
    return Result(newest, plain, end or sentence(newest))


def sentence(seen: Seen) -> str:
    """Say what became of a lock."""
    if seen.active:
        ends = seen.instant("expiresAt")
        until = f" until {format_instant(ends)}" if ends is not None else ""
        return f"holds {amounts(seen.resources)} on {seen.node}{until}"
    if seen.phase == Phase.CONSUMED:
        return (
            f"nothing is locked, as its owner is there already: {seen.condition('Active').get('message', '')}"
        )
    return seen.why


@contextmanager
def _display() -> Iterator[Callable[[Reservation], None]]:
    """Show how far locks are: a line each that moves, or where there is no terminal one a step."""
    console = terminal(stderr=True)
    if not console.is_terminal:
        told: dict[Key, str] = {}

        def say(lock: Reservation) -> None:
            text = progress(Seen(lock))
            if told.get(lock.key) != text:
                told[lock.key] = text
                tell(f"reservation/{lock.meta.name}: {text}")

        yield say
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        tasks: dict[Key, Any] = {}

        def draw(lock: Reservation) -> None:
            text = f"reservation/{lock.meta.name}: {progress(Seen(lock))}"
            if lock.key not in tasks:
                tasks[lock.key] = bar.add_task(text, total=None)
            bar.update(tasks[lock.key], description=text)

        yield draw


def _show(results: Sequence[Result], output: Output | None) -> None:
    if output in (Output.JSON, Output.YAML):
        plain: Any = [result.raw for result in results]
        show_plain(plain[0] if len(plain) == 1 else plain, output)
        return
    show(*screen(results))


def screen(results: Sequence[Result]) -> list[str]:
    """Write a line about each lock."""
    return [f"reservation/{each.seen.lock.meta.name} {each.seen.phase}: {each.text}" for each in results]
