"""Extenders: the pods that they are asked about, the requests, and the meaning of their answers.

The JSON is that of k8s.io/kube-scheduler/extender/v1 of Kubernetes 1.36: its fields have the names of Go, and
answers are read in any case of letters, as Go does. The rules are those of kube-scheduler's extender.go and
schedule_one.go (findNodesThatPassExtenders, prioritizeNodes). Nothing here does I/O.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from tidelock.framework import api
from tidelock.framework.config_file import Extender
from tidelock.model.nesting import decode_plain
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.raw import raw_of

UNEXPECTED_ANSWER = "the answer is not of the expected type"
_MAX_PRIORITY = 10
_POINTS = api.MAX_NODE_SCORE // _MAX_PRIORITY

T = TypeVar("T")


class AnswerError(ValueError):
    """An extender has answered that it failed, or something that makes no sense."""


class _Meta(msgspec.Struct, frozen=True):
    name: str


class _NodeItem(msgspec.Struct, frozen=True):
    metadata: _Meta


class _NodeList(msgspec.Struct, frozen=True):
    items: tuple[_NodeItem, ...] | None = None


class _FilterResult(msgspec.Struct, frozen=True, rename="lower"):
    nodes: _NodeList | None = None
    nodenames: tuple[str, ...] | None = None
    failednodes: dict[str, str] | None = None
    failedandunresolvablenodes: dict[str, str] | None = None
    error: str | None = None


class _HostPriority(msgspec.Struct, frozen=True):
    host: str = ""
    score: int = 0


class _BindingResult(msgspec.Struct, frozen=True):
    error: str | None = None


class _MetaPod(msgspec.Struct, frozen=True):
    uid: str = ""


class _MetaVictims(msgspec.Struct, frozen=True):
    pods: tuple[_MetaPod, ...] = ()
    numpdbviolations: int = 0


@dataclass(frozen=True, slots=True)
class ExtenderFailure:
    """Why an extender ruled a node out, and whether evictions might help there."""

    reason: str
    preemption_may_help: bool


@dataclass(frozen=True, slots=True)
class ExtenderFilterResult:
    """The nodes that one extender lets pass, and the reasons about the others."""

    names: tuple[str, ...]
    failed: Mapping[str, ExtenderFailure]


@dataclass(frozen=True, slots=True)
class ExtenderAdviceData:
    """The answer of all extenders about a pod, by the names of nodes.

    Attributes:
        names: the nodes that pass.
        failed: the reasons about others, as far as they are given.
        scores: additions to the weighted scores of the plugins.
        victims: the nodes that are left to preemption, with victims, or None without a question.
        error: why there is no answer at all, or empty.

    """

    names: frozenset[str] = frozenset()
    failed: Mapping[str, ExtenderFailure] = field(default_factory=dict)
    scores: Mapping[str, int] = field(default_factory=dict)
    victims: Mapping[str, api.Victims] | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ExtenderVictims:
    """The pods to evict from a node, and how many disruption budgets that violates."""

    pods: tuple[Pod, ...]
    violations: int = 0


def is_interested(extender: Extender, pod: Pod) -> bool:
    """Return whether a pod names a managed resource. An extender that manages none gets all pods."""
    if not extender.managed_resources:
        return True
    managed = {resource.name for resource in extender.managed_resources}
    return any(
        not managed.isdisjoint(container.resources.requests)
        or not managed.isdisjoint(container.resources.limits)
        for container in (*pod.spec.containers, *pod.spec.init_containers)
    )


def has_advice(extender: Extender, pod: Pod) -> bool:
    """Return whether an extender must be asked about nodes for the pod."""
    return bool(extender.filter_verb or extender.prioritize_verb) and is_interested(extender, pod)


def has_say_in_preemption(extender: Extender, pod: Pod) -> bool:
    """Return whether an extender must be asked about victims for the pod."""
    return bool(extender.preempt_verb) and is_interested(extender, pod)


def nodes_request(extender: Extender, pod: Pod, nodes: Iterable[Node]) -> bytes:
    """Write ExtenderArgs: the pod, and nodes by name or whole."""
    names, whole = None, None
    if extender.node_cache_capable:
        names = [node.name for node in nodes]
    else:
        whole = {"metadata": {}, "items": [raw_of(node) for node in nodes]}
    return msgspec.json.encode({"Pod": raw_of(pod), "Nodes": whole, "NodeNames": names})


def read_filtered(extender: Extender, answer: bytes, asked: Iterable[str]) -> ExtenderFilterResult:
    """Read an ExtenderFilterResult. Raises AnswerError."""
    result = _convert(_fields(_decoded(answer)), _FilterResult)
    if result.error:
        raise AnswerError(result.error)
    names: tuple[str, ...] = ()
    if extender.node_cache_capable and result.nodenames is not None:
        names = result.nodenames
    elif result.nodes is not None:
        names = tuple(item.metadata.name for item in result.nodes.items or ())
    strange = sorted(set(names) - set(asked))
    if strange:
        raise AnswerError(
            f'extender "{extender.url_prefix}" claims a filtered node "{strange[0]}" '
            "which is not found in the input node list"
        )
    failed = {name: ExtenderFailure(text, True) for name, text in (result.failednodes or {}).items()}
    failed |= {
        name: ExtenderFailure(text, False) for name, text in (result.failedandunresolvablenodes or {}).items()
    }
    return ExtenderFilterResult(names, failed)


def read_priorities(extender: Extender, answer: bytes) -> list[tuple[str, int]]:
    """Read a HostPriorityList as additions to the scores of nodes. Raises AnswerError."""
    items = _convert(_decoded(answer), _ITEMS) or []
    hosts = _convert([_fields(item) for item in items], tuple[_HostPriority, ...])
    return [(each.host, each.score * extender.weight * _POINTS) for each in hosts]


def binding_request(pod: Pod, node_name: str) -> bytes:
    """Write ExtenderBindingArgs."""
    meta = pod.meta
    return msgspec.json.encode(
        {"PodName": meta.name, "PodNamespace": meta.namespace, "PodUID": meta.uid, "Node": node_name}
    )


def read_binding(answer: bytes) -> None:
    """Read an ExtenderBindingResult. Raises AnswerError if the pod was not bound."""
    result = _convert(_fields(_decoded(answer)), _BindingResult)
    if result.error:
        raise AnswerError(result.error)


def preemption_request(extender: Extender, pod: Pod, victims: Mapping[str, ExtenderVictims]) -> bytes:
    """Write ExtenderPreemptionArgs: the victims by uid or whole."""

    def described(by: Callable[[Pod], object]) -> dict[str, object]:
        return {
            name: {"Pods": [by(victim) for victim in each.pods], "NumPDBViolations": each.violations}
            for name, each in victims.items()
        }

    whole, meta = None, None
    if extender.node_cache_capable:
        meta = described(lambda victim: {"UID": victim.uid})
    else:
        whole = described(raw_of)
    return msgspec.json.encode(
        {"Pod": raw_of(pod), "NodeNameToVictims": whole, "NodeNameToMetaVictims": meta}
    )


def read_preemption(
    extender: Extender, answer: bytes, pods_on: Callable[[str], Iterable[Pod]]
) -> dict[str, ExtenderVictims]:
    """Read an ExtenderPreemptionResult. Raises AnswerError, also for a pod that is not on its node."""
    chosen = {}
    by_node = _convert(_fields(_decoded(answer)).get("nodenametometavictims"), _BY_NODE) or {}
    for name, meta in by_node.items():
        fields = _fields(meta)
        metapods = _convert(fields.pop("pods", None), _ITEMS) or []
        wanted = _convert({**fields, "pods": [_fields(each) for each in metapods]}, _MetaVictims)
        present = {pod.uid: pod for pod in pods_on(name)}
        uids = [each.uid for each in wanted.pods]
        strange = [uid for uid in uids if uid not in present]
        if strange:
            raise AnswerError(
                f"extender: {extender.url_prefix} claims to preempt pod (UID: {strange[0]}) on node: {name}, "
                "but the pod is not found on that node"
            )
        chosen[name] = ExtenderVictims(tuple(present[uid] for uid in uids), wanted.numpdbviolations)
    return chosen


_ITEMS: Any = list[Any] | None
_BY_NODE: Any = dict[str, Any] | None


def _decoded(answer: bytes) -> Any:
    try:
        return decode_plain(answer)
    except ValueError as error:
        raise AnswerError(f"the answer is not JSON: {error}") from error


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of an object in lower case. Null has none."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise AnswerError(UNEXPECTED_ANSWER)
    return {name.lower(): content for name, content in value.items() if content is not None}


def _convert(value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise AnswerError(f"{UNEXPECTED_ANSWER}: {error}") from error
