"""The parts that work with autoscalers, their watches and their endless work."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from tidelock.integrations.autoscalers.capacity_buffers import (
    CAPACITY_BUFFERS,
    POD_TEMPLATES,
    SELECTOR,
    CapacityBufferController,
    decode_known,
)
from tidelock.integrations.autoscalers.node_protection import NodeProtection
from tidelock.integrations.autoscalers.node_requests import NodeRequests
from tidelock.kube.client import KubeClient
from tidelock.kube.errors import ApiError, Forbidden, NotFound
from tidelock.kube.watch import Reflector
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.core.decider import Decider

_ADVICE: Mapping[type[ApiError], str] = MappingProxyType(
    {
        NotFound: "install CapacityBuffer v1beta1 with the autoscaler, or leave --request-nodes out",
        Forbidden: "give it the rights of manifests/components/autoscalers",
    }
)


class Autoscalers:
    """Keeps the nodes of reservations, and asks for nodes, as far as the settings say so."""

    def __init__(
        self, context: WriterContext, decider: Decider, *, keep_nodes: bool, request_nodes: bool
    ) -> None:
        """Prepare. Without both settings it removes the annotations of an earlier process from nodes."""
        self._protection = NodeProtection(
            context, decider.ledger, decider.columns, enabled=keep_nodes or request_nodes
        )
        self._buffers: CapacityBufferController | None = None
        if request_nodes:
            self._buffers = CapacityBufferController(context, NodeRequests(decider, context.isolation))

    def reflectors(self, client: KubeClient, rng: Random, **marks: Any) -> Iterator[Reflector[Any]]:
        """Yield the watches of buffers and templates, if nodes are requested."""
        if self._buffers is None:
            return
        for resource, sink in (
            (CAPACITY_BUFFERS, self._buffers.buffers),
            (POD_TEMPLATES, self._buffers.templates),
        ):
            yield Reflector(
                client,
                resource,
                decode_known,
                sink,
                rng=rng,
                label_selector=SELECTOR,
                advice=_ADVICE,
                **marks,
            )

    def work(self, started: asyncio.Event) -> Iterator[tuple[str, Callable[[], Awaitable[object]]]]:
        """Yield the endless work of each part, with its name."""
        yield "protection", lambda: self._protection.run(started)
        if (buffers := self._buffers) is not None:
            yield "node requests", lambda: buffers.run(started)
