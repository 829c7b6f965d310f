"""Removal of annotations without a WaterLevel, which are found by level.

A WaterLevel has no finalizer, so no process needs to run when it is deleted. An object that carries an
annotation without need is found at the next check, also after a restart.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator

from tidelock.kube.client import NODES
from tidelock.load.annotator import Annotated, Annotator, workload_resource
from tidelock.load.cooperative import in_slices, paced
from tidelock.load.groups import MeasuredGroup, selector_of
from tidelock.load.workloads import MeasuredWorkload, Workloads
from tidelock.model.nodes import Node
from tidelock.model.usage_annotations import NODE_LEVEL
from tidelock.model.water_level import WaterLevel

logger = logging.getLogger(__name__)


class GarbageCollector:
    """Removes annotations of nodes that no WaterLevel selects, and of workloads that are not measured."""

    def __init__(
        self,
        annotator: Annotator,
        nodes: Callable[[], Iterable[Node]],
        workloads: Workloads,
    ) -> None:
        self._annotator = annotator
        self._nodes = nodes
        self._workloads = workloads
        # Annotations are removed once per node, by its uid. A value that remains is foreign.
        self._removed: dict[str, str] = {}

    async def remove(
        self, stored: Collection[WaterLevel], groups: Collection[MeasuredGroup], now: float
    ) -> bool:
        """Check once, when all nodes are known, and return whether workloads were forgotten.

        `stored` are the WaterLevels of the API server, `groups` those that are measured. A refused write is
        repeated at the next check.
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
        """Find annotated nodes that no WaterLevel selects, or none while a spec of one can't be read.

        The list of stored objects and Kopf's watch, which fills the groups, may each be ahead of the other.
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


def _emptied(workload: MeasuredWorkload) -> Annotated:
    """Return a workload without our annotations."""
    key, owner = workload
    resource = workload_resource(key.kind, owner.api_version)
    return Annotated(resource, key.name, key.namespace, owner.uid, None)
