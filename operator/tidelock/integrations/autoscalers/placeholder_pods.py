"""Pod templates that stand for capacity: the part of a pod for which an autoscaler finds or adds a node."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import msgspec

from tidelock.model.pods import Pod
from tidelock.model.quantities import PODS
from tidelock.model.requests import Container

Template = dict[str, Any]
"""A pod template as plain JSON values."""

HOSTNAME = "kubernetes.io/hostname"

_IMAGE = "placeholder"  # the API server requires one, and no container of it is ever started
# A container must have equal limits and requests of extended resources and of huge pages.
_NATIVE_PREFIX = "kubernetes.io/"
_HUGE_PAGES = "hugepages-"

_encode = msgspec.json.Encoder(order="sorted").encode


def placeholder_of(pod: Pod) -> Template:
    """Return a template with the requests and the demands on a node of a pod.

    Volumes are left out, because only a real pod has claims. Labels are kept where neighbours matter.
    """
    spec = pod.spec
    plain: Template = {
        "containers": [_container(each, index) for index, each in enumerate(spec.containers)],
        "initContainers": [
            _container(each, index, "init")
            | ({"restartPolicy": each.restart_policy} if each.restart_policy else {})
            for index, each in enumerate(spec.init_containers)
        ],
        "resources": None if spec.resources is None else {"requests": spec.resources.requests},
        "overhead": spec.overhead,
        "nodeSelector": spec.node_selector,
        "affinity": None if spec.affinity is None else _plain(spec.affinity),
        "tolerations": _plain(spec.tolerations),
        "topologySpreadConstraints": _plain(spec.topology_spread_constraints),
        "hostNetwork": spec.host_network,
    }
    template: Template = {"spec": {name: value for name, value in plain.items() if value}}
    affinity = spec.affinity
    near = affinity is not None and (affinity.pod_affinity or affinity.pod_anti_affinity)
    if pod.meta.labels and (near or spec.topology_spread_constraints):
        template["metadata"] = {"labels": dict(pod.meta.labels)}
    return template


def beside(template: Template, hostnames: Iterable[str]) -> Template:
    """Return a template that none of the named hosts can run. The hosts must be sorted."""
    excluded = {"key": HOSTNAME, "operator": "NotIn", "values": list(hostnames)}
    if not excluded["values"]:
        return template
    spec = template["spec"]
    affinity = spec.get("affinity", {})
    node_affinity = affinity.get("nodeAffinity", {})
    required = node_affinity.get(_REQUIRED) or {"nodeSelectorTerms": [{}]}
    terms = [
        {**term, "matchExpressions": [*term.get("matchExpressions", ()), excluded]}
        for term in required["nodeSelectorTerms"]
    ]
    node_affinity = {**node_affinity, _REQUIRED: {"nodeSelectorTerms": terms}}
    return {**template, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": node_affinity}}}


def encoded(template: Template) -> bytes:
    """Return a template as JSON, which is equal for equal templates."""
    return _encode(template)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _container(container: Container, index: int, kind: str = "c") -> Template:
    requests = {name: amount for name, amount in container.resources.requests.items() if name != PODS}
    limits = {name: amount for name, amount in requests.items() if _must_be_limited(name)}
    plain: Template = {"name": f"{kind}{index}", "image": _IMAGE, "ports": _plain(container.ports)}
    plain["resources"] = {
        name: value for name, value in (("requests", requests), ("limits", limits)) if value
    }
    return {name: value for name, value in plain.items() if value}


def _must_be_limited(resource: str) -> bool:
    return resource.startswith(_HUGE_PAGES) or ("/" in resource and not resource.startswith(_NATIVE_PREFIX))


def _plain(value: Any) -> Any:
    """Return decoded values as the API has them, without the absent ones."""
    if isinstance(value, msgspec.Struct):
        return dict(_fields(value))
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return value


def _fields(struct: msgspec.Struct) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a struct by their names in the API.

    An empty value that is the default is absent. An empty selector is not: it selects everything.
    """
    for name, wire_name in _names(type(struct)):
        value = getattr(struct, name)
        if value or isinstance(value, msgspec.Struct):
            yield wire_name, _plain(value)


@cache
def _names(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(kind))
