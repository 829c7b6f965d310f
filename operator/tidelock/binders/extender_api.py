"""The scheduler-extender API in JSON: requests and answers.

The fields are those of k8s.io/kube-scheduler/extender/v1 of Kubernetes 1.36. Their structs have no JSON tags,
so the names are those of Go. A scheduler with `nodeCacheCapable` sends and gets names of nodes and uids of
pods. Any other scheduler sends whole objects and gets whole nodes back.
"""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from tidelock.binders.admission_check import AdmissionCheck
from tidelock.model.pods import Pod, decode_pod

_MOST_POINTS = 10

_T = TypeVar("_T", bound=msgspec.Struct)


class BadRequestError(ValueError):
    """A request that no scheduler sends."""


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    uid: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _NodeList(msgspec.Struct, frozen=True):
    items: tuple[msgspec.Raw, ...] | None = None


class _Args(msgspec.Struct, frozen=True, rename="pascal"):
    pod: msgspec.Raw
    nodes: _NodeList | None = None
    node_names: tuple[str, ...] | None = None


class _MetaPod(msgspec.Struct, frozen=True):
    uid: str = msgspec.field(default="", name="UID")


class _Victims(msgspec.Struct, frozen=True):
    pods: tuple[_Object, ...] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _MetaVictims(msgspec.Struct, frozen=True):
    pods: tuple[_MetaPod, ...] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _PreemptionArgs(msgspec.Struct, frozen=True, rename="pascal"):
    pod: msgspec.Raw
    node_name_to_victims: dict[str, _Victims] | None = None
    node_name_to_meta_victims: dict[str, _MetaVictims] | None = None


Verb = Callable[[AdmissionCheck, bytes, float, bool], bytes | None]
"""Answers a request at an instant, or returns None to a patient caller, or raises BadRequestError."""


def filter_nodes(check: AdmissionCheck, body: bytes, now: float, patient: bool) -> bytes | None:
    """Answer ExtenderArgs with an ExtenderFilterResult."""
    args = _decoded(body, _Args)
    whole = _whole_nodes(args)
    names = whole or args.node_names or ()
    left = check.filter(_decoded_pod(args.pod), names, now, patient=patient)
    if left is None:
        return None
    capable = args.node_names is not None
    return msgspec.json.encode(
        {
            "Nodes": None if capable else {"metadata": {}, "items": [whole[name] for name in left.names]},
            "NodeNames": left.names if capable else None,
            "FailedNodes": left.failed,
            "FailedAndUnresolvableNodes": left.hopeless,
            "Error": "",
        }
    )


def prioritize_nodes(check: AdmissionCheck, body: bytes, _now: float, _patient: bool) -> bytes:
    """Answer ExtenderArgs with a HostPriorityList: the maximum for nodes with a reservation of the pod."""
    args = _decoded(body, _Args)
    own = check.own_nodes(_decoded_pod(args.pod))
    names = _whole_nodes(args) or args.node_names or ()
    return msgspec.json.encode(
        [{"Host": name, "Score": _MOST_POINTS if name in own else 0} for name in names]
    )


def preempt_pods(check: AdmissionCheck, body: bytes, _now: float, _patient: bool) -> bytes:
    """Answer ExtenderPreemptionArgs with an ExtenderPreemptionResult: the sufficient victims."""
    args = _decoded(body, _PreemptionArgs)
    victims = args.node_name_to_meta_victims
    if victims is None:
        victims = {
            name: _MetaVictims(tuple(_MetaPod(pod.metadata.uid) for pod in each.pods or ()), each.violations)
            for name, each in (args.node_name_to_victims or {}).items()
        }
    uids = {name: {pod.uid for pod in each.pods or ()} for name, each in victims.items()}
    chosen = check.preempt(_decoded_pod(args.pod), uids)
    return msgspec.json.encode({"NodeNameToMetaVictims": {name: victims[name] for name in chosen}})


VERBS: dict[str, Verb] = {"filter": filter_nodes, "prioritize": prioritize_nodes, "preempt": preempt_pods}
"""Function for each verb, by the names in a scheduler's configuration."""


def _whole_nodes(args: _Args) -> dict[str, msgspec.Raw]:
    """Return the whole nodes of a request by name, or none if it only has names."""
    if args.nodes is None:
        return {}
    return {_decoded(raw, _Object).metadata.name: raw for raw in args.nodes.items or ()}


def _decoded_pod(raw: msgspec.Raw) -> Pod:
    try:
        pod = decode_pod(raw)
    except ValueError as error:
        raise BadRequestError(f"Pod: {error}") from error
    if pod.meta.unreadable:
        raise BadRequestError(f"Pod: {pod.meta.unreadable}")
    return pod


def _decoded(body: bytes | msgspec.Raw, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(str(error)) from error
