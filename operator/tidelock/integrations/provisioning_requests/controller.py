"""Serves ProvisioningRequests by ReservationGroups, through the API alone.

It is level-triggered, as the controllers of Tidelock's own kinds are. Whatever happened, the stored request
and its stored group decide the next write. A group is created once, with a name that only its request has.
It is deleted when the request can't need it any more. Kubernetes' garbage collector deletes it with its
request.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, NoReturn

import msgspec

from tidelock.integrations.provisioning_requests.request import (
    CLASS_NAME,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
    REQUEST_LABEL,
    ProvisioningRequest,
    decode_request,
)
from tidelock.integrations.provisioning_requests.status import (
    is_final,
    is_provisioned,
    render_failed,
    render_request,
)
from tidelock.kube.client import RESERVATIONGROUPS
from tidelock.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from tidelock.kube.watch import MakeReflector, Reflector
from tidelock.model.meta import Key
from tidelock.model.reservation_group import ReservationGroup, decode_group
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.object_writer import ObjectWriter, another_object
from tidelock.scheduler.actions.tasks import until_woken
from tidelock.scheduler.controllers.creations import Creations

_ADVICE: Mapping[type[ApiError], str] = MappingProxyType(
    {
        NotFound: "install the CRD of ProvisioningRequests: docs/kueue.md",
        Forbidden: "give it the rights of manifests/components/provisioning-requests",
    }
)


class UnservableError(Exception):
    """A request can't be served. The text names the field, its value and the expected value."""


class RequestGroups:
    """Keeps the ReservationGroups of requests, as the event handler of their watch.

    Attributes:
        listed: set once all groups are known.

    """

    def __init__(self, on_change: Callable[[ReservationGroup], None]) -> None:
        """Call a function with each group that has changed or is gone."""
        self.listed = asyncio.Event()
        self._on_change = on_change
        self._groups: dict[Key, ReservationGroup] = {}
        self._deleted: set[str] = set()  # UIDs of groups that the watch still shows

    def upsert(self, old: ReservationGroup | None, new: ReservationGroup) -> None:
        """Take over a group's newest version."""
        del old
        self._groups[new.key] = new
        self._on_change(new)

    def remove(self, last: ReservationGroup) -> None:
        """Forget a group that is gone, unless another one has its name."""
        known = self._groups.get(last.key)
        if known is not None and known.meta.uid == last.meta.uid:
            del self._groups[last.key]
        self._deleted.discard(last.meta.uid)
        self._on_change(last)

    def synced(self) -> None:
        """Take note that all groups are known."""
        self.listed.set()

    def of(self, request: ProvisioningRequest) -> ReservationGroup | None:
        """Return the group of a request. A group of that name with another owner does not count."""
        group = self._groups.get(request.group_key)
        owner = None if group is None else group.meta.controller
        return group if owner is not None and owner.uid == request.meta.uid else None

    def is_going(self, group: ReservationGroup) -> bool:
        """Return whether a group is being deleted, or was deleted a moment ago."""
        return group.meta.deletion_timestamp is not None or group.meta.uid in self._deleted

    @contextmanager
    def deleting(self, group: ReservationGroup) -> Iterator[None]:
        """Note that a group is deleted, unless the request in the context fails."""
        self._deleted.add(group.meta.uid)
        try:
            yield
        except ApiError:
            self._deleted.discard(group.meta.uid)
            raise


class ProvisioningRequestController(ObjectWriter):
    """Takes requests of the class `CLASS_NAME` in, as the event handler of their watch, and serves each.

    Attributes:
        groups: the event handler of the watch of groups.

    """

    def __init__(self, context: WriterContext) -> None:
        super().__init__(context, PROVISIONING_REQUESTS, "provisioning")
        self.groups = RequestGroups(self._group_changed)
        self._requests: dict[Key, ProvisioningRequest] = {}
        self._changed: dict[Key, None] = {}
        self._creations = Creations()
        self._wakeup = asyncio.Event()

    def watch(self, make: MakeReflector) -> Reflector[ProvisioningRequest]:
        """Return the watch of requests, which must run beside `run`."""
        return make(PROVISIONING_REQUESTS, decode_request, self, absent_if=(NotFound,), advice=_ADVICE)

    def watch_groups(self, make: MakeReflector) -> Reflector[ReservationGroup]:
        """Return the watch of the groups of requests, which must run beside `run`.

        Unlike the watch of all groups, it never takes a missing kind for an empty list. So no fault of the
        API server makes promised capacity look revoked.
        """
        return make(
            RESERVATIONGROUPS,
            decode_group,
            self.groups,
            name="groups of requests",
            label_selector=REQUEST_LABEL,
        )

    # For the watches.

    def upsert(self, old: ProvisioningRequest | None, new: ProvisioningRequest) -> None:
        """Take over a request's newest version. Requests of other classes are others' to serve."""
        del old
        if new.class_name != CLASS_NAME or new.meta.deletion_timestamp is not None:
            self._drop(new.key)
            return
        known = self._requests.get(new.key)
        if known is not None and known.meta.uid == new.meta.uid and known.meta.version > new.meta.version:
            return  # older than our own write
        self._requests[new.key] = new
        self._compare_later(new.key)

    def remove(self, last: ProvisioningRequest) -> None:
        """Forget a request, whose group goes with it, unless another one has its name."""
        known = self._requests.get(last.key)
        if known is not None and known.meta.uid == last.meta.uid:
            self._drop(last.key)

    def _drop(self, key: Key) -> None:
        if self._requests.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._creations.forget(key)
            self._forget(key)

    def synced(self) -> None:
        """Take note that all requests are known, which changes nothing."""

    def _group_changed(self, group: ReservationGroup) -> None:
        owner = group.meta.controller
        if owner is not None and owner.kind == PROVISIONING_REQUESTS.kind:
            self._compare_later(Key(group.meta.namespace, owner.name))

    # The work.

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Serve requests for ever, from the moment at which the cluster and all groups are known."""
        await started.wait()
        await self.groups.listed.wait()
        while True:
            await until_woken(self._wakeup, None, self._clock)
            for key in [key for key in self._changed if key not in self._writing]:
                self._changed.pop(key, None)
                self.reconcile(key)
                await asyncio.sleep(0)

    def _stored(self, key: Key) -> ProvisioningRequest | None:
        return self._requests.get(key)

    def _compare_later(self, key: Key) -> None:
        if key in self._requests:
            self._changed[key] = None
            self._wakeup.set()

    def _differs(self, key: Key) -> bool:
        request = self._requests.get(key)
        if request is None:
            return False
        return (
            self._needs_group(request)
            or self._surplus(request) is not None
            or self._status(request) != request.status
        )

    def _settled(self, key: Key) -> None:
        due = self._creations.next_due(key)
        if due is not None:
            left = max(due - self._clock.monotonic(), 0.0)
            asyncio.get_running_loop().call_later(left, self._compare_later, key)

    def _acknowledge(self, written: bytes) -> None:
        answer = decode_request(written)
        known = self._requests.get(answer.key)
        if known is not None and known.meta.uid == answer.meta.uid:
            self.upsert(None, answer)

    def _ended(self, key: Key) -> None:  # noqa: ARG002 -- each end is a reason to look
        self._wakeup.set()

    def _needs_group(self, request: ProvisioningRequest) -> bool:
        """Return whether a group must be created now."""
        if request.problem or is_final(request) or is_provisioned(request):
            return False
        there = () if self.groups.of(request) is None else (request.group_key,)
        names, now = (request.group_key.name,), self._clock.monotonic()
        return bool(self._creations.missing(request.key, names, there, now))

    def _surplus(self, request: ProvisioningRequest) -> ReservationGroup | None:
        """Return the group of a request that can't need it any more, unless it is going already."""
        group = self.groups.of(request)
        return group if group is not None and is_final(request) and not self.groups.is_going(group) else None

    def _status(self, request: ProvisioningRequest) -> dict[str, Any]:
        now = self._clock.now()
        if request.problem and not is_final(request):
            return render_failed(request, request.problem, now)
        waiting = self._creations.problems.get(request.key, "")
        return render_request(request, self.groups.of(request), now, waiting)

    async def _write_difference(self, key: Key) -> None:
        """Create the group, write the status, or delete the group.

        Raises:
            ApiError: a request failed. The status says why there is no group.

        """
        request = self._requests[key]
        problem: ApiError | None = None
        if (surplus := self._surplus(request)) is not None:
            async with self.turn(request.meta):
                with self.groups.deleting(surplus):
                    await self._delete(surplus.meta, RESERVATIONGROUPS)
            return
        try:
            if self._needs_group(request):
                problem = await self._create_group(request)
        except UnservableError as error:
            status = render_failed(request, str(error), self._clock.now())
        else:
            status = self._status(request)
        if status != request.status:
            async with self.turn(request.meta):
                await self._replace_status(request.meta, status)
        if problem is not None:
            raise problem

    async def _create_group(self, request: ProvisioningRequest) -> ApiError | None:
        """Create the group of a request. Return an error after which another try may help.

        Raises:
            UnservableError: a template is missing, or the API server refuses the group.

        """
        namespace = request.meta.namespace
        self._creations.problems.pop(request.key, None)
        try:
            group = request.group([template async for template in self._templates(request)])
            async with self.turn(request.meta):
                with suppress(AlreadyExists), another_object():  # the answer to an earlier creation was lost
                    await self._client.create(RESERVATIONGROUPS.collection(namespace), group)
        except Invalid as error:
            raise UnservableError(f"the ReservationGroup is refused: {error.message}") from error
        except ApiError as error:
            self._creations.problems[request.key] = f"the ReservationGroup can't be created yet: {error}"
            return error
        self._creations.note(request.key, request.group_key.name, self._clock.monotonic())
        return None

    async def _templates(self, request: ProvisioningRequest) -> AsyncIterator[dict[str, Any]]:
        """Yield the pod template of each pod set.

        Raises:
            UnservableError: a template is missing, or has no containers.
            ApiError: a template can't be read now.

        """
        for number, pods in enumerate(request.pod_sets):
            name = pods.pod_template_ref.name
            where = f'spec.podSets[{number}].podTemplateRef.name: "{name}"'
            try:
                async with self.turn(request.meta):
                    raw = await self._client.get(POD_TEMPLATES.item(name, request.meta.namespace))
            except NotFound:
                raise UnservableError(f"{where}: should name a PodTemplate of the namespace") from None
            template = msgspec.json.decode(raw).get("template") or {}
            if not (template.get("spec") or {}).get("containers"):
                raise UnservableError(f"{where}: should name a PodTemplate with containers")
            yield template
