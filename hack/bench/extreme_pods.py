"""Pods with very many of one field."""

from collections.abc import Iterator

from bench.extreme_objects import (
    HOSTNAME,
    ZONE,
    Thing,
    anti_affinity_of,
    anti_affinity_term,
    make_pod,
    requesting,
    resource_names,
)
from bench.nodes import Json
from bench.scenarios import node_name


def unknown_resources(names: int, _nodes: int) -> Iterator[Thing]:
    """Yield a pod that requests resources that no node has."""
    yield make_pod("worst", containers=[requesting(resource_names("none", names))])


def placed_with_resources(pods: int, names: int, nodes: int) -> Iterator[Thing]:
    """Yield pods that another scheduler has bound, each with different resources that no node has."""
    for number in range(pods):
        asked = requesting(resource_names(f"p{number}", names))
        yield make_pod(f"worst-{number}", containers=[asked], nodeName=node_name(number % nodes))


def anti_affinity(terms: int, _nodes: int) -> Iterator[Thing]:
    """Yield a pod with anti-affinity to most pods of all namespaces, by terms that all differ."""
    yield make_pod("worst", affinity=anti_affinity_of(terms))


def placed_anti_affinity(terms: int, nodes: int) -> Iterator[Thing]:
    """Yield a bound pod with anti-affinity to most pods of all namespaces."""
    yield make_pod("worst", affinity=anti_affinity_of(terms), nodeName=node_name(nodes // 2))


def placed_preferences(terms: int, nodes: int) -> Iterator[Thing]:
    """Yield a bound pod with preferred anti-affinity to most pods of all namespaces."""
    preferred = [{"weight": 1, "podAffinityTerm": anti_affinity_term(number)} for number in range(terms)]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    yield make_pod("worst", affinity=affinity, nodeName=node_name(nodes // 2))


def _terms(count: int) -> list[Json]:
    return [
        {"matchExpressions": [{"key": f"none.example.com/{number}", "operator": "Exists"}]}
        for number in range(count)
    ]


def node_affinity(terms: int, _nodes: int) -> Iterator[Thing]:
    """Yield a pod with node affinity terms that each name a different label."""
    required = {"nodeSelectorTerms": _terms(terms)}
    yield make_pod(
        "worst", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    )


def preferred_nodes(terms: int, _nodes: int) -> Iterator[Thing]:
    """Yield a pod with preferred node affinity terms that each name a different label."""
    preferred = [{"weight": 1, "preference": term} for term in _terms(terms)]
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    yield make_pod("worst", affinity=affinity)


def spread(constraints: int, _nodes: int) -> Iterator[Thing]:
    """Yield a pod with spread constraints over the pods of its namespace, with selectors that all differ."""
    wanted = [
        {
            "maxSkew": 100,
            "topologyKey": HOSTNAME if number % 2 else ZONE,
            "whenUnsatisfiable": "DoNotSchedule" if number % 3 else "ScheduleAnyway",
            "labelSelector": {
                "matchExpressions": [{"key": "app", "operator": "NotIn", "values": [f"none-{number}"]}]
            },
        }
        for number in range(constraints)
    ]
    yield make_pod("worst", topologySpreadConstraints=wanted)


def tolerations(count: int, _nodes: int) -> Iterator[Thing]:
    """Yield a pod that tolerates many taints."""
    tolerations = [{"key": f"none-{number}", "operator": "Exists"} for number in range(count)]
    yield make_pod("worst", tolerations=tolerations)


def many_containers(count: int, _nodes: int) -> Iterator[Thing]:
    """Yield a pod of many containers, each with another image and another resource."""
    containers = [
        {
            "name": f"c-{number}",
            "image": f"image-{number}",
            "resources": {"requests": {"cpu": "1m", f"none.example.com/{number}": "1"}},
        }
        for number in range(count)
    ]
    yield make_pod("worst", containers=containers)


def host_ports(count: int, nodes: int) -> Iterator[Thing]:
    """Yield a bound pod and a pending one, which both take many ports of their node."""
    ports = [{"containerPort": 1 + number, "hostPort": 1 + number} for number in range(count)]
    container = {"name": "main", "image": "pause", "ports": ports}
    yield make_pod("worst-placed", containers=[container], nodeName=node_name(nodes // 2))
    yield make_pod("worst", containers=[container])


def many_volumes(count: int, _nodes: int) -> Iterator[Thing]:
    """Yield a pod with many disks."""
    volumes = [
        {"name": f"v-{number}", "rbd": {"monitors": [f"m-{number}"], "pool": "p", "image": f"i-{number}"}}
        for number in range(count)
    ]
    yield make_pod("worst", volumes=volumes)


def many_labels(count: int, nodes: int) -> Iterator[Thing]:
    """Yield a bound pod and a pending one, both with many labels."""
    labels = {f"label-{number}": "x" for number in range(count)}
    yield make_pod("worst-placed", labels=labels, nodeName=node_name(nodes // 2))
    yield make_pod("worst", labels=labels)
