"""The remains of an object that the operator failed to process: it exists, but can't be used.

They replace the object until it is processed. They count like any object with an unreadable needed part: a
node takes no pod, nor does the node of such a pod, and a reservation keeps its capacity.
"""

from dataclasses import replace
from functools import singledispatch
from typing import Any

import msgspec

from tidelock.model.meta import Fault, ObjectMeta
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod, PodSpec, PodStatus
from tidelock.model.raw import kept_raw
from tidelock.model.reservation import Reservation


@singledispatch
def unusable(known: Any, problem: str) -> Any:
    """Return the replacement of an object, or None if it needs none."""
    del known, problem


@unusable.register
def _pod(known: Pod, problem: str) -> Pod:
    status = PodStatus(phase=known.status.phase)
    spec = PodSpec(node_name=known.spec.node_name, scheduler_name=known.spec.scheduler_name)
    left = Pod(_bare(known.meta, problem), spec, status)
    left.__dict__.update(kept_raw(known))
    return left


@unusable.register
def _node(known: Node, problem: str) -> Node:
    left = msgspec.structs.replace(known, metadata=_bare(known.meta, problem))
    left.__dict__.update(kept_raw(known))
    return left


@unusable.register
def _reservation(known: Reservation, problem: str) -> Reservation:
    meta = _with_fault(known.meta, problem)
    return replace(known, meta=meta, spec=None, pod=None, problem=problem, failure=problem)


def _with_fault(meta: ObjectMeta, problem: str) -> ObjectMeta:
    """Note in an object's metadata that nothing of the object can be used."""
    fault = Fault("", problem, needed=True)
    plain = {name: getattr(meta, name) for name in ObjectMeta.__struct_fields__}
    return ObjectMeta(**plain | {"faults": (fault, *meta.faults)})


def _bare(meta: ObjectMeta, problem: str) -> ObjectMeta:
    return msgspec.structs.replace(_with_fault(meta, problem), labels={}, annotations={})
