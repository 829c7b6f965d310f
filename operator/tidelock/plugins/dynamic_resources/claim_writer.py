"""Writes allocations and users to claims, and waits until the devices are ready.

Semantics of kube-scheduler 1.37, plugins/dynamicresources (bindClaim). Each write is refused if the claim has
changed since it was read. So the pods that share a claim write it one after the other. A claim that a lost
answer may have changed is read and written again, because its devices must not be given away as long as the
API server may have them allocated.
"""

import asyncio
import json
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from tidelock.cluster.index.devices import ResourceClaims
from tidelock.framework.api import Api
from tidelock.framework.device_reports import DeviceReports
from tidelock.kube.errors import ApiError, Conflict, TransientError
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key, controlled_by
from tidelock.model.pods import Pod
from tidelock.model.resource_claims import (
    FINALIZER,
    FOR_EXTENDED_RESOURCES,
    AllocationResult,
    ResourceClaim,
    decode_resource_claim,
)
from tidelock.plugins.dynamic_resources.binding_conditions import Readiness, failure_of, readiness
from tidelock.plugins.dynamic_resources.claim_words import allocated_elsewhere, deallocated_elsewhere
from tidelock.plugins.dynamic_resources.extended_resources import RequestMapping

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Tries of a write that others' writes refuse, and of one without an answer. The latter take a minute: that
# long a request may be under way.
_MOST_CONFLICTS = 5
_MOST_LOST = 16
_LONGEST_PAUSE = 5.0
_DOUBLINGS = 6  # of the pause, which is as long as the longest then
# Stands for a write under way among the pods for which devices are in flight.
_WRITE = "a write"
_FAILED, _TIMED_OUT = "device binding failed", "device binding timeout"
# Longest time in seconds after which a claim is looked at again, for its time-out.
_LONGEST_WAIT = 1.0


@dataclass(slots=True)
class OwnClaim:
    """The claim for a pod's extended resources, which is created with the pod's binding.

    Attributes:
        claim: the claim, as it is stored once it is `created`.
        mappings: the requests from which containers get their resources.

    """

    claim: ResourceClaim
    mappings: Sequence[RequestMapping]
    created: bool = False


@dataclass(frozen=True, slots=True)
class ReservedClaims:
    """The claims of a pod that is reserved on a node, and the allocations to write, by claim.

    `at` is the time of the decision, in seconds since the epoch. `own` is the claim for extended resources.
    """

    claims: tuple[ResourceClaim, ...]
    allocations: dict[Key, AllocationResult]
    at: float
    own: OwnClaim | None = None


@dataclass(slots=True, weakref_slot=True)
class _Turns:
    """The order of the writes to a claim, and the claim after the last one."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    latest: ResourceClaim | None = None

    def newest(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the newer one of a claim and the last written state of it."""
        latest = self.latest
        if latest is None or latest.meta.uid != claim.meta.uid or latest.meta.version < claim.meta.version:
            return claim
        return latest


class ClaimWriter:
    """Writes the decisions about claims.

    Args:
        claims: all claims.
        api: writes to the API server.
        timeout: seconds within which devices must be ready.
        reports: takes reports.

    """

    def __init__(
        self, claims: ResourceClaims, api: Api | None, timeout: float, reports: DeviceReports | None = None
    ) -> None:
        self._claims = claims
        self._api = api
        self._timeout = timeout
        self._reports = reports
        self._waiting: defaultdict[Key, set[asyncio.Event]] = defaultdict(set)
        self._deallocating: dict[Key, int] = {}  # the resource versions that the writes replace
        self._deleting: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._turns: WeakValueDictionary[Key, _Turns] = WeakValueDictionary()
        claims.on_change(self._changed)

    async def bind(self, pod: Pod, reserved: ReservedClaims, node_name: str) -> str:
        """Write all claims of a pod, and wait for their devices. Return the problem, or an empty text.

        Raises:
            ApiError: a write failed.

        """
        if self._api is None:
            raise RuntimeError("claims can't be written where decisions are only tried out")
        own, claims = reserved.own, reserved.claims
        if own is not None:
            claims = (*claims, await self._create(self._api, pod, reserved, own))
        stored: list[ResourceClaim] = []
        for claim in claims:
            written = claim
            if not claim.reserved_by(pod.uid):
                write = self._spawn(self._write(self._api, claim, pod, reserved))
                outcome = await asyncio.shield(write)  # goes on if a preemptor cancels the binding
                if isinstance(outcome, str):
                    return outcome
                written = outcome
            stored.append(written)
        if own is not None:
            await self._api.patch(_pod_status(pod), _mapped(pod, own), kind="strategic")
        if not any(each.allocation is not None and each.allocation.waits for each in stored):
            return ""
        if self._reports is not None:
            self._reports.waits(pod, node_name)
        loop = asyncio.get_running_loop()
        start = loop.time()
        problem = await self._until_ready(stored, reserved.at)
        if self._reports is not None:
            self._reports.waited(pod, stored, _status(problem), loop.time() - start)
        return problem

    def deallocate(self, claim: ResourceClaim) -> bool:
        """Take the devices of an unused claim away in the background, if writes are possible."""
        if self._api is None:
            return False
        if not self.deallocating(claim):
            self._deallocating[claim.key] = claim.meta.version
            self._spawn(self._deallocate(self._api, claim))
        return True

    def delete(self, claim: ResourceClaim) -> bool:
        """Delete a claim for extended resources in the background, if writes are possible."""
        if self._api is None:
            return False
        if claim.meta.uid not in self._deleting:
            self._deleting.add(claim.meta.uid)
            self._spawn(self._delete(self._api, claim))
        return True

    def deallocating(self, claim: ResourceClaim) -> bool:
        """Return whether the devices of this version of a claim are being taken away."""
        return self._deallocating.get(claim.key) == claim.meta.version

    async def _create(self, api: Api, pod: Pod, reserved: ReservedClaims, own: OwnClaim) -> ResourceClaim:
        """Create the claim for extended resources. Its devices are in flight by its real name then."""
        path = f"/apis/resource.k8s.io/v1/namespaces/{pod.meta.namespace}/resourceclaims"
        succeeded = False
        try:
            created = decode_resource_claim(await api.create(path, _new_claim(pod, own.claim)))
            succeeded = True
        finally:
            if self._reports is not None:
                self._reports.created(succeeded=succeeded)
        allocation = reserved.allocations[own.claim.key]
        self._claims.in_flight.make(created.key, allocation, pod.uid, created.meta.uid)
        self._claims.in_flight.release(own.claim.key, pod.uid)
        reserved.allocations[created.key] = allocation
        own.claim, own.created = created, True
        return created

    async def _delete(self, api: Api, claim: ResourceClaim) -> None:
        body = {"metadata": {"uid": claim.meta.uid, "$deleteFromPrimitiveList/finalizers": [FINALIZER]}}

        async def write() -> None:
            await api.patch(_path(claim.key), body, kind="strategic")
            await api.delete(_path(claim.key), uid=claim.meta.uid)

        try:
            await _repeated(write, "no deletion", claim)
        finally:
            self._deleting.discard(claim.meta.uid)

    async def _write(
        self, api: Api, claim: ResourceClaim, pod: Pod, reserved: ReservedClaims
    ) -> ResourceClaim | str:
        """Write a claim's allocation, if there is one to write, and its user. Return it, or the problem.

        The devices are in flight until the outcome is known, even if the binding fails before.
        """
        allocation = reserved.allocations.get(claim.key)
        known = self._claims.get(claim.meta.name, claim.meta.namespace)
        if allocation is None or (known is not None and known.allocation is not None):
            return await self._in_turn(api, claim, allocation, pod, reserved.at)
        self._claims.in_flight.make(claim.key, allocation, _WRITE)
        try:
            return await self._in_turn(api, claim, allocation, pod, reserved.at)
        finally:
            self._claims.in_flight.release(claim.key, _WRITE)

    async def _in_turn(
        self, api: Api, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod, at: float
    ) -> ResourceClaim | str:
        """Write a claim after the other pods that share it. At once, most writes would be refused."""
        turns = self._turns.setdefault(claim.key, _Turns())
        async with turns.lock:
            outcome = await self._written(api, turns.newest(claim), allocation, pod, at)
            if isinstance(outcome, ResourceClaim):
                turns.latest = outcome
        return outcome

    async def _written(
        self, api: Api, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod, at: float
    ) -> ResourceClaim | str:
        conflicts = lost = 0
        while True:
            try:
                if conflicts or lost:
                    claim = decode_resource_claim(await api.get(_path(claim.key)))
                    if claim.reserved_by(pod.uid) and claim.allocation is not None:
                        break  # by a write without an answer
                missing = None if _has_devices_of(allocation, claim) else allocation
                if problem := _obstacle(claim, missing):
                    return problem
                claim = await _write_once(api, claim, missing, pod, at)
                break
            except Conflict:
                conflicts += 1
                if conflicts >= _MOST_CONFLICTS:
                    raise
            except TransientError as error:
                lost += 1
                if lost >= _MOST_LOST:
                    raise
                await _pause_after(error, lost)
        self._claims.in_flight.wrote(claim.key, claim.meta.version)
        return claim

    async def _until_ready(self, stored: Iterable[ResourceClaim], began: float) -> str:
        """Wait until the conditions of all devices of claims hold. Return the problem, or an empty text.

        Their time begins with the allocation, which an earlier pod may have got, and at the latest with this
        wait.
        """
        waiting = (each for each in stored if each.allocation is not None and each.allocation.waits)
        versions = {each.key: each.meta.version for each in waiting}
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        start = loop.time()
        for key in versions:
            self._waiting[key].add(event)
        try:
            while True:
                waited = loop.time() - start
                problem = self._look(versions, began + waited, late=waited >= self._timeout)
                if problem is not None:
                    return problem
                event.clear()
                handle = loop.call_later(_LONGEST_WAIT, event.set)
                try:
                    await event.wait()
                finally:
                    handle.cancel()
        finally:
            for key in versions:
                self._waiting[key].discard(event)
                if not self._waiting[key]:
                    del self._waiting[key]

    def _look(self, versions: Mapping[Key, int], now: float, *, late: bool) -> str | None:
        """Return a problem, an empty text if all devices are ready, or None while that is open."""
        pending = False
        for key, version in versions.items():
            claim = self._claims.get(key.name, key.namespace)
            if claim is None and self._claims.in_flight.get(key) is None:
                return f'could not find ResourceClaim "{key}"'
            if claim is None or claim.meta.version < version:  # the write is not seen yet
                pending = True
                continue
            if claim.allocation is None:
                return deallocated_elsewhere(key)
            state = readiness(claim, now, self._timeout)
            if state is Readiness.FAILED and (failure := failure_of(claim)) is not None:
                message = json.dumps(failure.message, ensure_ascii=False)
                return f"{_FAILED}: claim={key.name}, reason={failure.reason}, message={message}"
            if state is Readiness.TIMED_OUT:
                return f"{_TIMED_OUT}: claim={key.name}"
            pending |= state is not Readiness.READY
        if not pending:
            return ""
        return f"{_TIMED_OUT}: claim={min(versions).name}" if late else None

    async def _deallocate(self, api: Api, claim: ResourceClaim) -> None:
        status = {"allocation": None, "reservedFor": None, "devices": None}

        async def write() -> None:
            await api.patch(_path(claim.key, "status"), _patch(claim, status=status), kind="strategic")

        if not await _repeated(write, "no deallocation", claim):
            self._deallocating.pop(claim.key, None)

    def _spawn(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Forget a task. Its error is that of a binding, which may be over by now."""
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # asyncio would report that none had looked at it

    def _changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        claim = new or old
        if claim is None:
            return
        if self._deallocating and not (new is not None and self.deallocating(new)):
            self._deallocating.pop(claim.key, None)
        for event in self._waiting.get(claim.key, ()):
            event.set()


async def _repeated(write: Callable[[], Awaitable[None]], failure: str, claim: ResourceClaim) -> bool:
    """Repeat a write until it succeeds, and return True, or until no repetition can help.

    The pod's next attempt would try it again. But the pod may wait for the very event of this write.
    """
    lost = 0
    while True:
        try:
            await write()
        except ApiError as error:
            logger.info(failure, extra={"claim": str(claim.key), "error": str(error)})
            if not isinstance(error, TransientError):
                return False
            lost += 1
            await _pause_after(error, lost)
        else:
            return True


async def _pause_after(error: TransientError, lost: int) -> None:
    """Wait after a request that has failed so many times."""
    await asyncio.sleep(min(error.retry_after or 0.1 * 2 ** min(lost, _DOUBLINGS), _LONGEST_PAUSE))


async def _write_once(
    api: Api, claim: ResourceClaim, allocation: AllocationResult | None, pod: Pod, at: float
) -> ResourceClaim:
    status: dict[str, object] = {"reservedFor": [{"resource": "pods", "name": pod.meta.name, "uid": pod.uid}]}
    if allocation is not None:
        finalizers = _patch(claim, finalizers=[FINALIZER])
        claim = decode_resource_claim(await api.patch(_path(claim.key), finalizers, kind="strategic"))
        status["allocation"] = msgspec.to_builtins(allocation) | {"allocationTimestamp": _instant(at)}
    elif claim.allocation is not None and claim.allocation.allocation_timestamp is None:
        status["allocation"] = {"allocationTimestamp": _instant(at)}
    body = _patch(claim, status=status)
    return decode_resource_claim(await api.patch(_path(claim.key, "status"), body, kind="strategic"))


def _status(problem: str) -> str:
    """Return the outcome of a wait for devices as metrics name it."""
    outcomes = {"": "success", _FAILED: "failure", _TIMED_OUT: "timeout"}
    return outcomes.get(problem.partition(": ")[0], "error")


def _new_claim(pod: Pod, claim: ResourceClaim) -> dict[str, object]:
    requests = [
        {
            "name": request.name,
            "exactly": {
                "deviceClassName": each.device_class_name,
                "allocationMode": each.allocation_mode,
                "count": each.count,
            },
        }
        for request in claim.spec.devices.requests
        for each in request.alternatives
    ]
    metadata = {
        "generateName": f"{pod.meta.name}-extended-resources-",
        "annotations": {FOR_EXTENDED_RESOURCES: "true"},
        "ownerReferences": [controlled_by(pod.meta, "v1", "Pod")],
    }
    return {"metadata": metadata, "spec": {"devices": {"requests": requests}}}


def _mapped(pod: Pod, own: OwnClaim) -> dict[str, object]:
    """Return the patch of a pod's status that names the claim for its extended resources."""
    mappings = [
        {
            "containerName": each.container_name,
            "resourceName": each.resource_name,
            "requestName": each.request_name,
        }
        for each in own.mappings
    ]
    status = {"resourceClaimName": own.claim.meta.name, "requestMappings": mappings}
    return {"metadata": {"uid": pod.uid}, "status": {"extendedResourceClaimStatus": status}}


def _has_devices_of(allocation: AllocationResult | None, claim: ResourceClaim) -> bool:
    """Return whether a claim has the devices of an allocation, which a pod that shares it has written."""
    if allocation is None or claim.allocation is None:
        return False
    ours, theirs = (
        [(each.request, each.id, each.share_id) for each in given.devices.results]
        for given in (allocation, claim.allocation)
    )
    return ours == theirs


def _obstacle(claim: ResourceClaim, allocation: AllocationResult | None) -> str:
    """Return why a claim can't be written any more, or an empty text."""
    if claim.meta.deletion_timestamp is not None:
        return f"claim {claim.key} got deleted in the meantime"
    if allocation is not None and claim.allocation is not None:
        return allocated_elsewhere(claim.key)
    if allocation is None and claim.allocation is None:
        return deallocated_elsewhere(claim.key)
    return ""


def _patch(
    claim: ResourceClaim, *, status: object = None, finalizers: Sequence[str] = ()
) -> dict[str, object]:
    """Return a patch that is refused if the claim has changed since it was seen."""
    metadata: dict[str, object] = {"uid": claim.meta.uid, "resourceVersion": claim.meta.resource_version}
    if finalizers:
        return {"metadata": metadata | {"finalizers": finalizers}}
    return {"metadata": metadata, "status": status}


def _path(key: Key, subresource: str = "") -> str:
    path = f"/apis/resource.k8s.io/v1/namespaces/{key.namespace}/resourceclaims/{key.name}"
    return f"{path}/{subresource}" if subresource else path


def _pod_status(pod: Pod) -> str:
    return f"/api/v1/namespaces/{pod.meta.namespace}/pods/{pod.meta.name}/status"


def _instant(at: float) -> str:
    return format_instant(int(at))
