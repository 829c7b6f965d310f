"""Asks autoscalers for nodes by CapacityBuffers, which Cluster Autoscaler and Karpenter read.

A buffer names a PodTemplate and a number of pods. An autoscaler keeps room for so many pods of the template,
and adds nodes if there is none. So a buffer exists for as long as something asks for a node of its shape.

Source: sig-autoscaling's CapacityBuffer API, autoscaling.x-k8s.io/v1beta1.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NoReturn, Protocol

import msgspec

from tidelock.integrations.autoscalers.node_requests import NodeRequest
from tidelock.integrations.autoscalers.placeholder_pods import encoded
from tidelock.kube.client import ApiResource
from tidelock.kube.errors import ApiError, Forbidden, NotFound
from tidelock.kube.watch import MakeReflector, Reflector
from tidelock.load.cooperative import in_slices
from tidelock.model.lenient import Reader
from tidelock.model.meta import Key, ObjectMeta, StoredObject
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.object_writer import ObjectWriter, WritableObject, another_object

logger = logging.getLogger(__name__)

CAPACITY_BUFFERS = ApiResource("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer")
POD_TEMPLATES = ApiResource("", "v1", "podtemplates", "PodTemplate")
LABEL = "tidelock.dev/node-request"
"""Label of the buffers and templates that are ours."""
SELECTOR = f"{LABEL}=true"
FIELD_MANAGER = "tidelock-autoscalers"

_DIGEST = "tidelock.dev/template-digest"
_ACTIVE = "buffer.x-k8s.io/active-capacity"
_GLANCE = 0.1  # seconds between two checks whether a request has ended, and their number before each look
_GLANCES = 10
_TENANT = "/capacitybuffers"
_ADVICE: Mapping[type[ApiError], str] = MappingProxyType(
    {
        NotFound: "install CapacityBuffer v1beta1 with the autoscaler, or leave --request-nodes out",
        Forbidden: "give it the rights of manifests/components/autoscalers",
    }
)


@dataclass(frozen=True, slots=True)
class KnownObject:
    """A buffer or a template, as far as it is compared."""

    meta: ObjectMeta
    spec: Mapping[str, Any] = field(default_factory=dict)
    status: Mapping[str, Any] = field(default_factory=dict)


_READ = Reader(StoredObject)


def decode_known(raw: bytes | msgspec.Raw) -> KnownObject:
    """Decode a buffer or a template from its JSON, or raise ValueError if it has no name."""
    stored = _READ(raw)
    return KnownObject(stored.metadata, stored.spec, stored.status)


class Copies:
    """The objects of a resource, from its watch and from the answers to writes. The newest version counts."""

    def __init__(self) -> None:
        self.objects: dict[Key, KnownObject] = {}
        self.listed = False

    def upsert(self, old: KnownObject | None, new: KnownObject) -> None:
        """Take over an object's newest version."""
        del old
        known = self.objects.get(new.meta.key)
        if known is None or known.meta.uid != new.meta.uid or known.meta.version <= new.meta.version:
            self.objects[new.meta.key] = new

    def remove(self, last: KnownObject) -> None:
        """Forget an object that is gone."""
        known = self.objects.get(last.meta.key)
        if known is not None and known.meta.uid == last.meta.uid:
            del self.objects[last.meta.key]

    def synced(self) -> None:
        """Note that all objects are known."""
        self.listed = True


class Collector(Protocol):
    """Finds the requests for nodes."""

    @property
    def outdated(self) -> bool:
        """Whether something that asked in the last collection needs no node any more."""

    def collect(self, now: float, into: dict[Key, NodeRequest]) -> Iterator[None]:
        """Fill a dictionary with the requests by namespace and name, and yield in between."""


class CapacityBufferController(ObjectWriter):
    """Writes a buffer, with its template, for each request, and deletes those without one.

    Attributes:
        buffers: the event handler of our buffers.
        templates: the event handler of their templates.

    """

    def __init__(self, context: WriterContext, requests: Collector) -> None:
        super().__init__(context, CAPACITY_BUFFERS, "node request", tenant=_TENANT)
        self.buffers, self.templates = Copies(), Copies()
        self._requests = requests
        self._wanted: dict[Key, NodeRequest] = {}

    def reflectors(self, make: MakeReflector) -> Iterator[Reflector[Any]]:
        """Yield the watches of buffers and templates, which `make` makes."""
        for resource, sink in ((CAPACITY_BUFFERS, self.buffers), (POD_TEMPLATES, self.templates)):
            yield make(resource, decode_known, sink, label_selector=SELECTOR, advice=_ADVICE)

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Compare for ever, from the moment at which the cluster, the buffers and the templates are known."""
        await started.wait()
        while True:
            for _ in range(_GLANCES):
                await asyncio.sleep(_GLANCE)
                if self._requests.outdated:
                    break  # an autoscaler would add a node for a pod that has one
            if self.buffers.listed and self.templates.listed:
                await self.look()

    async def look(self) -> None:
        """Begin to write the buffers that are not as they should be."""
        wanted: dict[Key, NodeRequest] = {}
        await in_slices(self._requests.collect(self._clock.now(), wanted))
        self._wanted = wanted
        for key in dict.fromkeys((*wanted, *self.buffers.objects, *self.templates.objects)):
            self.reconcile(key)

    def _stored(self, key: Key) -> KnownObject | None:
        known = self.buffers.objects.get(key) or self.templates.objects.get(key)
        if known is None and key in self._wanted:
            return KnownObject(ObjectMeta(key.name, key.namespace))
        return known

    def _compare_later(self, key: Key) -> None:
        """Do nothing: the next look compares all buffers."""

    def _differs(self, key: Key) -> bool:
        request = self._wanted.get(key)
        if request is None:
            return key in self.buffers.objects or key in self.templates.objects
        return self._template_differs(key, request) or self._buffer_differs(key, request)

    def _template_differs(self, key: Key, request: NodeRequest) -> bool:
        known = self.templates.objects.get(key)
        return known is None or known.meta.annotations.get(_DIGEST) != _digest_of(request)

    def _buffer_differs(self, key: Key, request: NodeRequest) -> bool:
        known = self.buffers.objects.get(key)
        return known is None or not _spec_of(key, request).items() <= known.spec.items()

    async def _write_difference(self, key: Key) -> None:
        """Write a template before the buffer that names it, and delete them in the other order.

        A buffer that exists is changed before its template. Otherwise a smaller number of pods beside more
        nodes would look, for a moment, like a need of one more node.
        """
        async with self.turn(ObjectMeta(key.name, key.namespace)):
            request = self._wanted.get(key)
            if request is None:
                await self._remove(key, CAPACITY_BUFFERS, self.buffers)
                await self._remove(key, POD_TEMPLATES, self.templates)
                return
            writes = [self._write_template, self._write_buffer]
            for write in writes[::-1] if key in self.buffers.objects else writes:
                await write(key, request)

    async def _write_template(self, key: Key, request: NodeRequest) -> None:
        if self._template_differs(key, request):
            marks = {"annotations": {_DIGEST: _digest_of(request)}}
            await self._apply(key, POD_TEMPLATES, self.templates, {"template": request.template}, marks)

    async def _write_buffer(self, key: Key, request: NodeRequest) -> None:
        if self._buffer_differs(key, request):
            await self._apply(key, CAPACITY_BUFFERS, self.buffers, {"spec": _spec_of(key, request)}, {})
            fields = {"buffer": str(key), "replicas": request.replicas}
            logger.info("autoscalers are asked for nodes", extra=fields)

    async def _apply(
        self, key: Key, resource: ApiResource, copies: Copies, content: dict[str, Any], marks: dict[str, Any]
    ) -> None:
        """Create or change an object.

        Raises:
            ApiError: the request failed, also because the CRD is absent.

        """
        metadata = {"name": key.name, "namespace": key.namespace, "labels": {LABEL: "true"}, **marks}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}
        params = {"fieldManager": FIELD_MANAGER, "force": "true"}
        with another_object():  # it may not exist: for NotFound, the resource or the namespace is missing
            answer = await self._client.patch(
                resource.item(key.name, key.namespace), body, kind="apply", params=params
            )
        copies.upsert(None, decode_known(answer))

    async def _remove(self, key: Key, resource: ApiResource, copies: Copies) -> None:
        if (known := copies.objects.get(key)) is None:
            return
        with suppress(NotFound):  # its watch will say so
            await self._client.delete(resource.item(key.name, key.namespace), uid=known.meta.uid)
        copies.remove(known)

    async def _write_fault(self, stored: WritableObject, fault: Exception) -> None:
        """Write nothing: the status of a buffer is the autoscaler's."""


def _spec_of(key: Key, request: NodeRequest) -> dict[str, Any]:
    return {
        "podTemplateRef": {"name": key.name},
        "replicas": request.replicas,
        "provisioningStrategy": _ACTIVE,
    }


def _digest_of(request: NodeRequest) -> str:
    return sha256(encoded(request.template)).hexdigest()[:32]
