"""Leadership: of all processes that watch one Lease, one at a time decides and writes.

The rules are those of client-go's leader election. The leader renews the Lease again and again. The others
count its duration by their own clocks, from the moment when they last saw it change, and take it when that
time has passed. Tidelock promises three things more:

- A leader's writes stop with its right to them. `check` runs before every write, and uses only this
  process' monotonic clock, which goes on while the process is stopped.
- Every leadership has a number, `epoch`, the Lease's leaseTransitions. Bindings and the statuses of
  reservations carry it, so the API server itself can refuse the late writes of a former leader
  (manifests/base/fence.yaml).
- The others watch the Lease, so a released one is taken at once.

The election of the kubernetes package is not used: it has no number for fencing, a hung renewal outlasts its
deadline, and a Lease is neither released at the end nor watched.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, NoReturn, Protocol

import msgspec

from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    MalformedResponse,
    NotFound,
    NotLeading,
)
from tidelock.kube.watch import Reflector
from tidelock.kube.wire import parse_version
from tidelock.model.lenient import Reader
from tidelock.model.meta import ObjectMeta

logger = logging.getLogger(__name__)

LEASES = ApiResource("coordination.k8s.io", "v1", "leases", "Lease")

_LAST_EPOCH = 999_999_999  # manifests/base/fence.yaml reads nine digits
_NO_NAMESPACE = "create the namespace of the Lease, or name another one with --lease-namespace"
_BEGIN = 1_577_836_800  # 2020, in seconds since 1970


class LeaseLostError(Exception):
    """The Lease could not be renewed in time, or another process has it."""


class Leadership(Protocol):
    """The right to decide and to write."""

    epoch: int
    """Number of this leadership, greater than that of any before, or 0 without an election."""

    @property
    def waiting(self) -> bool:
        """Whether another process leads, as far as is known, and this process stands by."""

    @property
    def holder(self) -> str:
        """Identity of the leading process, as far as is known, or empty if there is no election."""

    @property
    def silence(self) -> str:
        """Message that another process has the Lease and does not renew it, or empty if this is not known."""
        return ""

    @property
    def manager(self) -> str:
        """The fieldManager of this leader's writes, which contains the epoch."""
        return f"tidelock-{self.epoch}"

    async def acquire(self) -> None:
        """Wait until this process leads."""

    async def keep(self) -> NoReturn:
        """Stay the leader forever, or raise LeaseLostError when that has failed."""

    async def release(self) -> None:
        """Let another process lead from now on."""

    def check(self) -> None:
        """Raise NotLeading unless this process leads now."""

    @asynccontextmanager
    async def term(self) -> AsyncIterator[None]:
        """Let another process lead from the end of the context on."""
        try:
            yield
        finally:
            await self.release()


class NoElection(Leadership):
    """Leads without an election: no other process decides for this cluster."""

    epoch = 0

    @property
    def waiting(self) -> bool:
        """Never."""
        return False

    @property
    def holder(self) -> str:
        """Empty, as there is no election."""
        return ""

    async def acquire(self) -> None:
        """Lead at once."""
        logger.info("leading without an election")

    async def keep(self) -> NoReturn:
        """Stay the leader forever."""
        await asyncio.Future()
        raise AssertionError

    async def release(self) -> None:
        """Do nothing, as no other process waits."""

    def check(self) -> None:
        """Accept every write."""


def _after(epoch: int, now: float) -> int:
    """Return the number of the next leadership, by the last one, or 0 if there is none, and the time.

    The first number is the seconds since 2020. An API server that had its fence deleted and applied again
    goes on to compare with the Lease as it was at that time (kubernetes/kubernetes#130887). It would refuse
    all writes of a new Lease's leader that counted from 1.
    """
    return epoch + 1 if 0 < epoch < _LAST_EPOCH else max(1, min(int(now - _BEGIN), _LAST_EPOCH))


class LeaseSpec(msgspec.Struct, frozen=True, rename="camel"):
    """Holder and times of a Lease. An empty holder has released it."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: str | None = None


class LeaseObject(msgspec.Struct, frozen=True):
    """A Lease of coordination.k8s.io/v1."""

    metadata: ObjectMeta
    spec: LeaseSpec = LeaseSpec()

    @property
    def meta(self) -> ObjectMeta:
        """Identity and version."""
        return self.metadata


_READ = Reader(LeaseObject, spare=r"metadata\..*|spec\.(?!holderIdentity).*")


def decode_lease(raw: bytes) -> LeaseObject:
    """Decode a Lease as far as it can be read, or raise MalformedResponse for a bad one."""
    try:
        return _READ(raw)
    except ValueError as error:
        raise MalformedResponse(str(error)) from error


def _version(lease: LeaseObject) -> int:
    """Return the version, which grows. Raises MalformedResponse if it is none."""
    return parse_version(lease.meta.resource_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """Times of an election, in seconds; each must be shorter than the one before it.

    Attributes:
        duration: how long others wait after the last change that they saw before they take the Lease.
        renew_deadline: how long after its last renewal the leader still decides and writes.
        retry_period: time between two renewals.

    """

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class Lease(Leadership):
    """Leads while it has a Lease. Its `identity` is unique to this process, not to its host."""

    def __init__(
        self,
        client: KubeClient,
        *,
        name: str,
        namespace: str,
        identity: str,
        rng: Random,
        times: LeaseTimes = LeaseTimes(),
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """Prepare. The client is not shared, so a renewal never waits for other requests."""
        self.epoch = 0
        self._client = client
        self._name, self._namespace, self._identity = name, namespace, identity
        self._key = f"{namespace}/{name}"
        self._rng = rng
        self._times = times
        self._clock, self._wall = clock, wall
        self._seen: LeaseObject | None = None
        self._seen_at = clock()
        self._renewals = False  # whether the holder was seen to renew it
        self._changed = asyncio.Event()
        self._held: LeaseObject | None = None
        self._valid_until = float("-inf")

    @property
    def waiting(self) -> bool:
        """Whether another process leads, as far as is known, and this process stands by."""
        return self._held is None and bool(self.holder)

    @property
    def holder(self) -> str:
        """Identity of the leading process, as far as is known, or empty before it was read."""
        last = self._held or self._seen
        return (last.spec.holder_identity or "") if last is not None else ""

    @property
    def silence(self) -> str:
        """Message that the holder of the Lease does not renew it, and when this process can take it.

        A leader renews several times in the duration of its Lease. So it counts as silent after a third of
        the duration without a change, and until its first renewal is seen.
        """
        if not self.waiting or self._seen is None:
            return ""
        silent, free = self._clock() - self._seen_at, self._free_at() - self._clock()
        if self._renewals and silent < (self._seen.spec.lease_duration_seconds or 0) / 3:
            return ""
        return f"no renewal by {self.holder} seen for {silent:.0f} s: it can be taken in {max(free, 0):.0f} s"

    def check(self) -> None:
        """Raise NotLeading unless the Lease was renewed not long ago, without a request."""
        if self._clock() >= self._valid_until:
            raise NotLeading(f"Lease {self._key} is not held any more, or not yet")

    async def acquire(self) -> None:
        """Wait for the Lease to be free and take it, in spite of API errors."""
        follower = Reflector(
            self._client,
            LEASES,
            _READ,
            self,
            rng=self._rng,
            namespace=self._namespace,
            field_selector=f"metadata.name={self._name}",
            clock=self._clock,
        )
        following = asyncio.create_task(follower.run())
        try:
            await follower.synced.wait()
            while not await self._take():
                await self._change()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        logger.info("leading", extra={"lease": self._key, "epoch": self.epoch, "identity": self._identity})

    async def keep(self, while_: Callable[[], bool] = lambda: True) -> NoReturn:
        """Renew forever, except while `while_` returns False.

        Raises:
            LeaseLostError: another process has it, or it was not renewed in time.

        """
        while True:
            await asyncio.sleep(self._times.retry_period)
            if while_():
                await self._renew()

    async def release(self) -> None:
        """Release the Lease, so a standby takes it at once. If that fails, the others wait for its end."""
        self._valid_until = float("-inf")
        try:
            try:
                await self._give_up()
            except Conflict:
                # The version may come from an own renewal that was applied without its answer being read.
                await self._look_again()
                await self._give_up()
        except (ApiError, LeaseLostError) as error:
            logger.info("the Lease was not released", extra={"error": str(error)})
        self._held = None

    # Handler of the Lease's watch while this process stands by.

    def upsert(self, old: LeaseObject | None, new: LeaseObject) -> None:
        """Note a change of the Lease."""
        if old is None or old.spec.holder_identity != new.spec.holder_identity:
            logger.info(
                "the Lease has a new holder",
                extra={"lease": self._key, "leader": new.spec.holder_identity or "none"},
            )
            self._renewals = False
        else:
            self._renewals = True
        self._see(new)

    def remove(self, last: LeaseObject) -> None:  # noqa: ARG002 -- the interface of an event handler
        """Note that the Lease is gone, so it is free."""
        self._see(None)

    def synced(self) -> None:
        """Do nothing: a Lease that is not in the list does not exist."""

    def _see(self, lease: LeaseObject | None) -> None:
        self._seen, self._seen_at = lease, self._clock()
        self._changed.set()

    async def _change(self) -> None:
        """Wait for a change of the Lease, or for its end."""
        try:
            async with asyncio.timeout(max(self._free_at() - self._clock(), self._times.retry_period / 10)):
                await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    def _free_at(self) -> float:
        """Return when the Lease as it was last seen can be taken, by the clock.

        A holder that can't be read counts as one, and a holder without a duration has the duration of this
        process.
        """
        seen = self._seen
        if seen is None or not (seen.spec.holder_identity or seen.meta.unreadable):
            return self._seen_at
        return self._seen_at + (seen.spec.lease_duration_seconds or self._times.duration)

    async def _take(self) -> bool:
        """Take the Lease if it is free, and return whether that worked."""
        seen, now = self._seen, self._clock()
        if now < self._free_at():
            return False
        self.epoch = _after(seen.spec.lease_transitions or 0 if seen else 0, self._wall())
        try:
            spec = self._spec(acquired=True)
            self._held = await (self._put(seen, spec) if seen else self._create(spec))
        except (Conflict, AlreadyExists):
            await self._catch_up()  # another process has written it
            return False
        except ApiError as error:
            advice = {"advice": _NO_NAMESPACE} if isinstance(error, NotFound) else {}
            fields = {"lease": self._key, "error": str(error), **advice}
            logger.warning("the Lease was not taken", extra=fields)
            await asyncio.sleep(self._times.retry_period)
            return False
        self._valid_until = now + self._times.renew_deadline
        return True

    async def _catch_up(self) -> None:
        """Read the Lease, as the watch has shown no change of it: its connection may have fallen silent."""
        try:
            found = decode_lease(await self._client.get(LEASES.item(self._name, self._namespace)))
            # The watch may have shown this version meanwhile, or a newer one.
            if self._seen is None or _version(self._seen) < _version(found):
                self.upsert(self._seen, found)
        except NotFound:
            self._see(None)
        except ApiError as error:
            logger.warning("the Lease was not read", extra={"lease": self._key, "error": str(error)})

    async def _renew(self) -> None:
        """Renew the Lease, or raise when it is too late."""
        held, sent = self._held, self._clock()
        if held is None or sent >= self._valid_until:
            self._lose("was not renewed in time")
        try:
            async with asyncio.timeout(self._valid_until - sent):
                self._held = await self._put(held, self._spec())
        except Conflict:
            # An earlier renewal may have been applied although its answer was lost.
            await self._look_again()
            return
        except (ApiError, TimeoutError) as error:
            logger.warning("the Lease was not renewed", extra={"lease": self._key, "error": str(error)})
            return
        self._valid_until = sent + self._times.renew_deadline

    async def _give_up(self) -> None:
        if self._held is not None:
            await self._put(self._held, {**self._spec(), "holderIdentity": "", "leaseDurationSeconds": 1})

    async def _look_again(self) -> None:
        try:
            found = decode_lease(await self._client.get(LEASES.item(self._name, self._namespace)))
        except ApiError as error:
            logger.warning("the Lease was not read", extra={"lease": self._key, "error": str(error)})
            return
        if found.spec.holder_identity != self._identity:
            self._lose(f"is {found.spec.holder_identity or 'no process'}'s")
        self._held = found

    def _lose(self, why: str) -> NoReturn:
        self._held, self._valid_until = None, float("-inf")
        raise LeaseLostError(f"Lease {self._key} {why}")

    async def _create(self, spec: dict[str, Any]) -> LeaseObject:
        path = LEASES.collection(self._namespace)
        return decode_lease(await self._client.create(path, self._body({}, spec)))

    async def _put(self, last: LeaseObject, spec: dict[str, Any]) -> LeaseObject:
        """Write the Lease, if it is still as it was last seen."""
        path = LEASES.item(self._name, self._namespace)
        version = {"resourceVersion": last.meta.resource_version}
        return decode_lease(await self._client.replace(path, self._body(version, spec)))

    def _body(self, version: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace, **version},
            "spec": spec,
        }

    def _spec(self, *, acquired: bool = False) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._wall(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(round(self._times.duration), 1),
            "acquireTime": now if acquired or self._held is None else self._held.spec.acquire_time,
            "renewTime": now,
            "leaseTransitions": self.epoch,
        }
