"""Annotations that no WaterLevel stands behind any more: they are found by level, and removed.

A WaterLevel has no finalizer, so nobody need be there when it goes: what carries an annotation and is not to
is found at the next look, after a restart too.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator

from tidelock.kube.client import NODES
from tidelock.load.annotator import Annotated, Annotator, workload_resource
from tidelock.load.cooperative import in_slices, paced
from tidelock.load.groups import MeasuredGroup, selector_of
from tidelock.load.workloads import Known, Workloads
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import NODE_LEVEL
from tidelock.model.water_level import WaterLevel

logger = logging.getLogger(__name__)

LOOK_SECONDS = 15.0
"""Seconds between two looks."""


class GarbageCollector:
    """Removes annotations of nodes that no WaterLevel selects, and of workloads that nobody measures."""

    def __init__(
        self,
        annotator: Annotator,
        nodes: Callable[[], Iterable[Node]],
        workloads: Workloads,
    ) -> None:
        self._annotator = annotator
        self._nodes = nodes
        self._workloads = workloads
        # What is left of a node's annotation is somebody else's: it is removed once, by the node's uid.
        self._removed: dict[str, str] = {}

    async def remove(
        self, stored: Collection[WaterLevel], groups: Collection[MeasuredGroup], now: float
    ) -> bool:
        """Look once, when all nodes are known; whether workloads were forgotten.

        `stored` are the WaterLevels of the API server, `groups` those that are measured. A refused write is
        repeated at the next look.
        """
        nodes: list[Annotated] = []
        await in_slices(self._nodes_left(stored, groups, nodes))
        measuring = bool(groups or stored)
        outdated = self._workloads.outdated(now, measuring=measuring)
        workloads = [_emptied(known) for known in outdated]
        if not nodes and not workloads:
            return False
        fields = {"nodes": len(nodes), "workloads": len(workloads)}
        logger.info("annotations of no WaterLevel are removed", extra=fields)
        refused = await self._annotator.write([*nodes, *workloads])
        for uid in refused:
            self._removed.pop(uid, None)
        gone = [known.key for known in outdated if known.owner.uid not in refused]
        self._workloads.forget(gone)
        return bool(gone)

    def _nodes_left(
        self, stored: Collection[WaterLevel], groups: Collection[MeasuredGroup], into: list[Annotated]
    ) -> Iterator[None]:
        """Find annotated nodes that no WaterLevel selects; none while the spec of one can't be read.

        The list of what is stored and Kopf's watch, which fills the groups, may each be ahead of the other.
        """
        specs = [each.spec for each in stored]
        selectors = [selector_of(spec) for spec in specs if spec is not None]
        if len(selectors) < len(specs):
            return
        selectors += [group.selector for group in groups]
        removed: dict[str, str] = {}
        for node in paced(self._nodes()):
            if node is None:
                yield
                continue
            text = node.meta.annotations.get(NODE_LEVEL)
            if text is None or any(each.matches(node.meta.labels) for each in selectors):
                continue
            uid = node.meta.uid
            removed[uid] = text
            if self._removed.get(uid) != text:
                into.append(Annotated(NODES, node.name, "", uid, None))
        self._removed = removed


def _emptied(known: Known) -> Annotated:
    """Write a workload without annotations of ours."""
    key, owner = known
    resource = workload_resource(key.kind, owner.api_version)
    return Annotated(resource, key.name, key.namespace, owner.uid, None)
