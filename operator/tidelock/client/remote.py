"""One reservation of a manager in one cluster, from its creation to its release."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

import pydantic

from tidelock.client.cluster import Cluster
from tidelock.client.errors import (
    AlreadyExists,
    ClientError,
    Conflict,
    Invalid,
    NotFound,
    Taken,
    TimedOut,
    Unavailable,
    invalid,
    refusal,
)
from tidelock.client.informer import Version, read_version
from tidelock.client.state import ReservationState
from tidelock.kube.client import RESERVATIONS
from tidelock.model.api.reservation import ReservationSpec
from tidelock.model.instants import format_instant
from tidelock.model.reservation import decode_reservation

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

_CREATIONS = 3  # tries to create, when a reservation of the name ends meanwhile
_GRACE = 10.0  # seconds beyond a reservation's own deadline in which the operator must report it
_ANSWER = 30.0  # seconds for the operator's answer to a commit
_ENDED_SECONDS = 60  # for which an ended reservation stays, so its holder can read how it ended


class RemoteReservation:
    """A reservation, and the requests about it. Use it as a context manager.

    Attributes:
        state: the newest state.
        adopted: whether the reservation existed already, from an earlier run of the manager.
        created_at: monotonic seconds before the request that created it, or that found it.

    """

    def __init__(self, cluster: Cluster, name: str, namespace: str, spec: ReservationSpec) -> None:
        self.cluster = cluster
        self.name = name
        self.namespace = namespace or cluster.namespace
        self.spec = spec
        self.state = self._unknown()
        self.adopted = False
        self.created_at = 0.0
        self._in_doubt = False
        self._early: list[Version] = []
        self._stale = False
        self._change = asyncio.Event()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        informer = self.cluster.informer(RESERVATIONS, self.namespace)
        self._stack.enter_context(informer.follow(self.name, self._on_version))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    async def find(self) -> None:
        """Take over the reservation that an earlier run of the manager has left, unless it has ended.

        Raise Taken if its owner has taken it, and AlreadyExists if it asks for something else.
        """
        self.created_at = time.monotonic()
        with suppress(NotFound):
            self._adopt(await self._read())
            if self.state.over:
                self._forget()

    async def create(self) -> None:
        """Create the reservation, or take over the one of its name that asks for the same.

        A reservation of the name that has ended is replaced. Raise Taken if its owner has taken it.
        """
        for _ in range(_CREATIONS):
            if self.adopted:
                return
            self.created_at = time.monotonic()
            try:
                self._take(await self._create())
            except AlreadyExists:
                with suppress(NotFound):
                    self._adopt(await self._read())
                    if not self.state.over:
                        return
                    await self.release()
                self._forget()
            else:
                return
        raise Conflict(f"reservation {self.name} ended {_CREATIONS} times", cluster=self.cluster.name)

    async def granted(self) -> None:
        """Wait until the capacity is reserved, or raise Refused or TimedOut."""
        seconds = self.spec.pending_deadline_seconds + _GRACE
        await self.until(lambda: self.state.decided and self.state.holds, seconds)

    async def commit(self) -> None:
        """Commit the present hold, and wait until that counts. Raise Refused if it does not."""
        await self.ask_for_commit()
        await self.confirmed()

    async def ask_for_commit(self) -> None:
        """Commit the present hold, unless it is committed already. The operator has not confirmed it yet."""
        state = self.state
        if not state.committed:
            if state.status.commit is None or state.status.commit.token is None:
                raise state.error()
            if state.token != state.status.commit.token:
                await self._patch({"commit": {"token": state.status.commit.token}})

    async def confirmed(self) -> None:
        """Wait until the commit counts, or raise Refused."""
        state = self.state
        await self.until(lambda: state.commit_answered, _ANSWER)
        condition = state.condition("Committed")
        if not state.holds or condition is None:
            raise state.error()
        if not state.committed:
            raise refusal(self.cluster.name, condition.reason, condition.message, state.status)

    async def renew(self) -> None:
        """Renew the lease."""
        await self._patch({"lease": {"renewTime": format_instant(round(time.time(), 3))}})

    async def release(self) -> None:
        """Delete the reservation, if it is the manager's own. One that is gone is released already.

        One that its owner has taken stays for its retention, as it proves that the pod was sent.
        """
        if not self.state.uid and self._in_doubt:
            try:
                self._adopt(await self._read())
            except (NotFound, AlreadyExists, Taken):
                return
        if self.state.uid and not self.state.taken:
            with suppress(NotFound, Conflict):  # it is gone, or another one has its name
                await self.cluster.delete(RESERVATIONS, self.name, self.namespace, uid=self.state.uid)
            self.state.gone = True

    async def until(self, done: Callable[[], bool], seconds: float) -> None:
        """Follow the reservation until a state. Raise Refused at its end, and TimedOut after some seconds."""
        try:
            async with asyncio.timeout(seconds):
                while not done():
                    if self.state.over:
                        raise self.state.error()
                    await self.advance()
        except TimeoutError as error:
            text = f"no answer of the operator within {seconds:g} s"
            active = self.state.condition("Active")
            full = f"{text}; {active.reason}: {active.message}" if active is not None else text
            raise TimedOut(full, cluster=self.cluster.name) from error

    async def advance(self) -> None:
        """Wait for the next change."""
        if not self._stale:
            await self._change.wait()
        if self._stale:
            self._stale = False
            await self.look()

    async def look(self) -> None:
        """Read the reservation. While the API server can't be reached, the watch goes on alone."""
        try:
            self._take(await self._read())
        except NotFound:
            self._vanish()
        except Unavailable as error:
            logger.info("can't read a reservation", extra={"cluster": self.cluster.name, "error": str(error)})

    def _on_version(self, version: Version | None) -> None:
        """Take over a version that the watch shows, once the response to the creation has the uid."""
        if version is None:
            self._stale = bool(self.state.uid)
            self._notify()
        elif self.state.uid:
            self.state.take(version)
            self._notify()
        else:
            self._early.append(version)

    def _take(self, raw: bytes) -> None:
        """Take over a response, and the versions that the watch showed before it."""
        self.state.take(read_version(raw))
        early, self._early = self._early, []
        for version in early:
            self.state.take(version)
        self._notify()

    def _notify(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def _vanish(self) -> None:
        self.state.gone = True
        self._notify()

    async def _read(self) -> bytes:
        return await self.cluster.get(RESERVATIONS, self.name, self.namespace)

    async def _create(self) -> bytes:
        body = {
            "apiVersion": RESERVATIONS.api_version,
            "kind": RESERVATIONS.kind,
            "metadata": {"name": self.name},
            "spec": self.spec.model_dump(mode="json", exclude_unset=True, exclude_none=True),
        }
        self._in_doubt = True
        try:
            return await self.cluster.create(RESERVATIONS, body, self.namespace)
        except ClientError as error:
            self._in_doubt = isinstance(error, Unavailable)
            raise

    async def _patch(self, spec: Mapping[str, object]) -> None:
        body = {"metadata": {"uid": self.state.uid}, "spec": spec}
        try:
            self._take(await self.cluster.patch(RESERVATIONS, self.name, body, self.namespace))
        except (NotFound, Conflict):  # it has ended, and perhaps another one has its name
            self._vanish()
        except Invalid as error:  # such as a commit of a reservation that has ended
            raise refusal(self.cluster.name, error.reason, error.message, self.state.status) from error

    def _adopt(self, raw: bytes) -> None:
        """Take over a reservation that asks for the same. Raise AlreadyExists otherwise, or Taken."""
        found, seen = decode_reservation(raw), self._unknown()
        seen.take(read_version(raw))
        if seen.consumed:
            raise seen.error()
        if found.spec is None or asked_of(found.spec) != asked_of(self.spec):
            text = f"reservation {found.key} exists and asks for something else"
            raise AlreadyExists(text, cluster=self.cluster.name, reason="AlreadyExists")
        self.adopted = True
        self._take(raw)

    def _forget(self) -> None:
        self.state, self.adopted = self._unknown(), False

    def _unknown(self) -> ReservationState:
        return ReservationState(self.cluster.name, retained=self.spec.retention == "Retain")


def completed(spec: ReservationSpec | Mapping[str, Any], **more: object) -> ReservationSpec:
    """Return the spec that is sent, or raise Invalid.

    It asks for an immediate answer. Unless the spec sets `retention`, an ended reservation stays for a
    minute, so its holder can read how it ended. `more` are further fields.
    """
    try:
        read = spec if isinstance(spec, ReservationSpec) else ReservationSpec.model_validate(spec)
    except pydantic.ValidationError as error:
        raise invalid(error) from error
    added: dict[str, object] = {"answer": "Immediate", **more}
    if "retention" not in read.model_fields_set:
        added |= {"retention": "Retain", "ttl_seconds_after_finished": _ENDED_SECONDS}
    if read.lease is not None and read.lease.renew_time is None:
        added["lease"] = read.lease.model_copy(update={"renew_time": datetime.now(UTC)})
    return read.model_copy(update=added)


def asked_of(spec: ReservationSpec) -> dict[str, Any]:
    """Return the request of a spec in a comparable form, without the parts that change while it is held."""
    plain = spec.model_dump(mode="json", exclude_none=True, exclude={"lease": {"renew_time"}})
    if "commit" in plain:
        plain["commit"].pop("token", None)
    return plain


async def finish(work: Coroutine[Any, Any, _T]) -> _T:
    """Run work that is bounded in time to its end, even if the caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        task.exception()  # retrieved: the cancellation is raised in its place
        raise asyncio.CancelledError
    return task.result()


async def release_all(remotes: list[RemoteReservation]) -> None:
    """Release reservations at once. One in a cluster that is away is logged, and ends by its limits."""

    async def release(remote: RemoteReservation) -> None:
        try:
            await remote.release()
        except ClientError as error:
            fields = {"reservation": remote.name, "cluster": remote.cluster.name, "error": str(error)}
            logger.warning("can't release a reservation", extra=fields)

    await asyncio.gather(*map(release, remotes))


async def release(cluster: Cluster, name: str, namespace: str = "") -> None:
    """Delete the reservation of a name, if there is one. Raises ClientError."""
    with suppress(NotFound):
        await cluster.delete(RESERVATIONS, name, namespace)
