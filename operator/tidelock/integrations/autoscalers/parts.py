"""The parts that work with autoscalers: they keep the nodes of reservations, and ask for nodes."""

from collections.abc import Iterator

from tidelock.integrations.autoscalers.node_protection import NodeProtection
from tidelock.scheduler.parts import PartContext, ProcessPart


def parts(context: PartContext) -> Iterator[ProcessPart]:
    """Yield the parts that the settings ask for.

    Without both settings the first one removes the annotations of an earlier process from nodes.
    """
    settings, writers, decider = context.settings, context.writers, context.core.decider
    enabled = settings.keep_nodes or settings.request_nodes
    protection = NodeProtection(writers, decider.ledger, decider.columns, enabled=enabled)
    yield ProcessPart("protection", protection.run)
    if settings.request_nodes:
        # Few clusters request nodes, and the others do not need these modules.
        from tidelock.integrations.autoscalers.capacity_buffers import (  # noqa: PLC0415
            CapacityBufferController,
        )
        from tidelock.integrations.autoscalers.node_requests import NodeRequests  # noqa: PLC0415

        buffers = CapacityBufferController(writers, NodeRequests(decider, writers.isolation))
        yield ProcessPart("node requests", buffers.run, tuple(buffers.reflectors(context.reflector)))
