"""Has autoscalers keep the nodes that hold reservations.

Cluster Autoscaler and Karpenter count pods alone, so a node with reserved capacity looks idle to them. Each
leaves a node alone that has its annotation with the value "true".

The annotations are applied without force, by a field manager of their own. So the API server keeps account of
the writers of each annotation:

- It refuses ours if another client has written another value meanwhile.
- It keeps the annotation after we give it up, if another client has applied the same value.

An annotation of our own beside them shows, after a restart too, that we have applied them. A key with another
value than "true" is left out.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from tidelock.cluster.columns import Columns
from tidelock.kube.client import NODES
from tidelock.ledger.ledger import Ledger
from tidelock.load.cooperative import in_slices, paced
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.nodes import decode_node
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.object_writer import ObjectWriter, WritableObject

logger = logging.getLogger(__name__)

FIELD_MANAGER = "tidelock-autoscalers"
PROTECTED = "tidelock.dev/protected-from-scale-down"
"""Annotation of a node whose other annotations are ours."""
CLUSTER_AUTOSCALER = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
KARPENTER = "karpenter.sh/do-not-disrupt"

_YES = "true"
_PAUSE = 1.0  # seconds between two looks
_TENANT = "/nodes"


@dataclass(frozen=True, slots=True)
class AnnotatedNode:
    """The metadata of a node, which has no status of ours."""

    meta: ObjectMeta
    status: Mapping[str, Any] = field(default_factory=dict)


class NodeProtection(ObjectWriter):
    """Writes the annotations of nodes. If not enabled, it removes those that an earlier process wrote."""

    def __init__(self, context: WriterContext, ledger: Ledger, columns: Columns, *, enabled: bool) -> None:
        super().__init__(context, NODES, "protection", tenant=_TENANT)
        self._holdings, self._quotas = ledger.holdings, ledger.quotas
        self._columns = columns
        self._enabled = enabled
        self._answers: dict[Key, ObjectMeta] = {}

    async def run(self, started: asyncio.Event) -> NoReturn:
        """Compare for ever, from the moment at which all nodes and reservations are known."""
        await started.wait()
        while True:
            await asyncio.sleep(_PAUSE)
            await self.look()

    async def look(self) -> None:
        """Begin to write to the nodes that are not as they should be."""
        reserved = self._holdings.nodes_with_reservations() if self._enabled else ()
        annotated = [node.name for node in self._columns.nodes if PROTECTED in node.meta.annotations]
        names = dict.fromkeys((*reserved, *annotated, *(key.name for key in self._answers)))

        await in_slices(self._compare(names))

    def _compare(self, names: Iterable[str]) -> Iterator[None]:
        for name in paced(names):
            if name is None:
                yield
            else:
                self.reconcile(Key("", name))

    def _stored(self, key: Key) -> AnnotatedNode | None:
        """Return a node as the watch has brought it, or as the answer to a write that is newer."""
        row = self._columns.row_of.get(key.name)
        seen = None if row is None else self._columns.nodes[row].meta
        answer = self._answers.get(key)
        if seen is None or answer is None or answer.uid != seen.uid or answer.version <= seen.version:
            self._answers.pop(key, None)
            return None if seen is None else AnnotatedNode(seen)
        return AnnotatedNode(answer)

    def _acknowledge(self, written: bytes) -> None:
        answer = decode_node(written).meta
        self._answers[answer.key] = answer

    def _compare_later(self, key: Key) -> None:
        """Do nothing: the next look compares all nodes."""

    def _differs(self, key: Key) -> bool:
        node = self._stored(key)
        if node is None:
            return False
        wanted, present = self._wanted(node.meta), node.meta.annotations
        return not wanted.items() <= present.items() if wanted else PROTECTED in present

    def _wanted(self, node: ObjectMeta) -> dict[str, str]:
        """Return the annotations that we should have applied to a node."""
        if not self._enabled or not self._must_be_kept(node.name):
            return {}
        theirs = (key for key in (CLUSTER_AUTOSCALER, KARPENTER) if node.annotations.get(key, _YES) == _YES)
        return dict.fromkeys((PROTECTED, *theirs), _YES)

    def _must_be_kept(self, name: str) -> bool:
        """Return whether a node has capacity of a namespace that may keep it, or while its owner is bound."""
        rests = (rest.entry for rest in self._holdings.rests.values() if rest.node == name)
        entries = (*self._holdings.held_on(name), *rests)
        return any(
            self._quotas.keeps_nodes(namespace) for namespace in {each.key.namespace for each in entries}
        )

    async def _write_difference(self, key: Key) -> None:
        if (node := self._stored(key)) is None:
            return
        async with self.turn(node.meta):
            if (node := self._stored(key)) is None or not self._differs(key):
                return
            wanted = self._wanted(node.meta)
            metadata: dict[str, Any] = {"name": node.meta.name, "uid": node.meta.uid}
            if wanted:  # an empty map would still belong to the field manager
                metadata["annotations"] = wanted
            body = {"apiVersion": NODES.api_version, "kind": NODES.kind, "metadata": metadata}
            params = {"fieldManager": FIELD_MANAGER, "force": "false"}
            answer = await self._client.patch(NODES.item(key.name), body, kind="apply", params=params)
            self._acknowledge(answer)
            logger.info(
                "a node's protection has changed", extra={"node": key.name, "protected": bool(wanted)}
            )

    async def _write_fault(self, stored: WritableObject, fault: Exception) -> None:
        """Write nothing: the status of a node is not ours."""
