"""The parts that work with autoscalers, their watches and their endless work."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import TYPE_CHECKING, Any

from tidelock.integrations.autoscalers.node_protection import NodeProtection
from tidelock.kube.client import KubeClient
from tidelock.kube.watch import Reflector
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.core.decider import Decider

if TYPE_CHECKING:
    from tidelock.integrations.autoscalers.capacity_buffers import CapacityBufferController


class Autoscalers:
    """Keeps the nodes of reservations, and asks for nodes, as far as the settings say so."""

    def __init__(
        self, context: WriterContext, decider: Decider, *, keep_nodes: bool, request_nodes: bool
    ) -> None:
        """Prepare. Without both settings it removes the annotations of an earlier process from nodes."""
        self._protection = NodeProtection(
            context, decider.ledger, decider.columns, enabled=keep_nodes or request_nodes
        )
        self._buffers = _make_buffers(context, decider) if request_nodes else None

    def reflectors(self, client: KubeClient, rng: Random, **marks: Any) -> Iterator[Reflector[Any]]:
        """Yield the watches of buffers and templates, if nodes are requested."""
        if self._buffers is not None:
            yield from self._buffers.reflectors(client, rng, **marks)

    def work(self, started: asyncio.Event) -> Iterator[tuple[str, Callable[[], Awaitable[object]]]]:
        """Yield the endless work of each part, with its name."""
        yield "protection", lambda: self._protection.run(started)
        if (buffers := self._buffers) is not None:
            yield "node requests", lambda: buffers.run(started)


def _make_buffers(context: WriterContext, decider: Decider) -> "CapacityBufferController":
    # Few clusters request nodes, and the others do not need these modules.
    from tidelock.integrations.autoscalers.capacity_buffers import CapacityBufferController  # noqa: PLC0415
    from tidelock.integrations.autoscalers.node_requests import NodeRequests  # noqa: PLC0415

    return CapacityBufferController(context, NodeRequests(decider, context.isolation))
