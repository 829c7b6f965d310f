"""The worst objects that a tenant can create, by kind.

The API server takes all of them, but some are beyond Tidelock's limits. All functions are pure: they make
objects from numbers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from bench.decisions import NAMESPACE
from bench.extreme_objects import (
    HOSTNAME,
    Thing,
    make_pod,
    make_reservation,
    make_template,
    requesting,
    resource_names,
)
from bench.extreme_pods import (
    anti_affinity,
    host_ports,
    many_containers,
    many_labels,
    many_volumes,
    node_affinity,
    placed_anti_affinity,
    placed_preferences,
    placed_with_resources,
    preferred_nodes,
    spread,
    tolerations,
    unknown_resources,
)
from bench.nodes import Json
from bench.scenarios import node_name
from tidelock.model.api.owners import MOST_CONDITIONS
from tidelock.model.api.reservation import MOST_MEMBERS
from tidelock.model.pod_limits import (
    CLAIM_CONDITIONS,
    CLAIMS,
    CONDITIONS,
    CONSTRAINTS,
    LIMITS,
    NODE_TERMS,
    OF_GROUPS,
    POD_TERMS,
    PORTS,
    RESOURCES,
    TOLERATIONS,
    VOLUMES,
)
from tidelock.model.pods import REQUIRE_RESERVATION

_UID = "00000000-0000-0000-0000-{:012}"


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of object.

    Attributes:
        name: name on the command line.
        things: makes the objects for a cluster of so many nodes.
        later: seconds after which decisions are measured again, or 0.

    """

    name: str
    things: Callable[[int], Iterator[Thing]]
    later: float = 0.0


def cases() -> list[Case]:
    """Return all cases, some within the limits and some far beyond them."""
    return [
        Case("resources", partial(unknown_resources, LIMITS[RESOURCES] - 2)),
        Case("resources-8000", partial(unknown_resources, 8_000)),
        Case("resources-of-placed", partial(placed_with_resources, 500, 1_000)),
        Case("resources-of-locks", partial(_reservations_with_resources, 16, 31, 2)),
        Case("resources-of-locks-512", partial(_reservations_with_resources, 16, 32, 16)),
        Case("claimed-locks", partial(_claims, 5_800, 700)),
        Case("owners", partial(_owners, 1_000, 16, MOST_CONDITIONS // 16)),
        Case("owners-of-gated", partial(_owners_of_gated, 5_000, 20)),
        Case("owners-for-reuse", partial(_reused, 32)),
        Case("ends", partial(_locks, 5_000, {"ttlSeconds": 10}), later=11),
        Case(
            "deadlines", partial(_locks, 5_000, {"nodeName": "none", "pendingDeadlineSeconds": 10}), later=11
        ),
        Case("alternatives", partial(_locks, 5_000, {"anyOf": "worst"})),
        Case("owners-placed", partial(_owners_among_placed, "Exists")),
        Case("owners-placed-all", partial(_owners_among_placed, "DoesNotExist")),
        Case("anti-affinity", partial(anti_affinity, LIMITS[POD_TERMS])),
        Case("anti-affinity-4000", partial(anti_affinity, 4_000)),
        Case("anti-affinity-of-placed-4000", partial(placed_anti_affinity, 4_000)),
        Case("preferred-affinity-of-placed-4000", partial(placed_preferences, 4_000)),
        Case("node-affinity", partial(node_affinity, LIMITS[NODE_TERMS])),
        Case("node-affinity-5000", partial(node_affinity, 5_000)),
        Case("preferred-node-affinity", partial(preferred_nodes, LIMITS[NODE_TERMS])),
        Case("spread-constraints", partial(spread, LIMITS[CONSTRAINTS])),
        Case("spread-constraints-1000", partial(spread, 1_000)),
        Case("tolerations", partial(tolerations, LIMITS[TOLERATIONS])),
        Case("tolerations-20000", partial(tolerations, 20_000)),
        Case("containers", partial(many_containers, LIMITS[RESOURCES] - 3)),
        Case("containers-5000", partial(many_containers, 5_000)),
        Case("host-ports", partial(host_ports, LIMITS[PORTS])),
        Case("host-ports-20000", partial(host_ports, 20_000)),
        Case("volumes", partial(many_volumes, LIMITS[VOLUMES])),
        Case("volumes-5000", partial(many_volumes, 5_000)),
        Case("labels-20000", partial(many_labels, 20_000)),
        Case("schedules", partial(_schedules, 1_000, "* * * * *")),
        # Clocks are put forward at this time, so it is skipped every year.
        Case("schedules-never", partial(_schedules, 1_000, "30 2 * 3 0L")),
        Case("quotes", partial(_quotes, 20)),
        Case("services", partial(_services, 5_000)),
        Case("preemptor", partial(_preemptor, LIMITS[CONSTRAINTS], LIMITS[POD_TERMS])),
        Case("claims", partial(_storage, LIMITS[CLAIMS], LIMITS[CLAIM_CONDITIONS] // LIMITS[CLAIMS])),
        Case("claims-of-10000", partial(_storage, 20, 10_000)),
        Case("controllers", partial(_controllers, LIMITS[CONDITIONS])),
        Case("controllers-20000", partial(_controllers, 20_000)),
        Case("budgets", partial(_budgets, 1, 62)),
        Case("budgets-1000", partial(_budgets, 1_000, 62)),
        Case("group", partial(_group, MOST_MEMBERS, "")),
        Case("group-spread", partial(_group, MOST_MEMBERS, "Spread")),
        Case("group-packed", partial(_group, MOST_MEMBERS, "Pack")),
        Case("group-packed-all-different", partial(_group, MOST_MEMBERS, "Pack", alike=False)),
        Case("group-in-one-node", partial(_group_in_one_node, MOST_MEMBERS)),
        Case("group-ports", partial(_group_of_ports, MOST_MEMBERS)),
        Case("group-of-strangers", partial(_more_than_group, 2_000)),
    ]


def _reservations_with_resources(
    reservations: int, containers: int, names: int, _nodes: int
) -> Iterator[Thing]:
    """Yield reservations with templates that request resources that no node has."""
    for number in range(reservations):
        asking = [
            {**requesting(resource_names(f"l{number}-{each}", names)), "name": f"c-{each}"}
            for each in range(containers)
        ]
        template = {"spec": {"containers": asking}}
        yield make_reservation(
            f"worst-{number}", {"owners": [{"pod": {"name": "worst"}}], "template": template}
        )


def _claims(uids: int, reservations: int, nodes: int) -> Iterator[Thing]:
    """Yield a bound pod with an annotation that names as many uids as fit, and many reservations for it."""
    claims = ",".join(_UID.format(number) for number in range(uids))
    yield make_pod(
        "worst",
        labels={"app": "worst"},
        annotations={"tidelock.dev/claimed-locks": claims},
        nodeName=node_name(nodes // 2),
    )
    for number in range(reservations):
        yield make_reservation(
            f"worst-{number}", {"owners": [{"pod": {"name": "worst"}}], "resources": {"cpu": "1m"}}
        )


def _owners(reservations: int, owners: int, expressions: int, _nodes: int) -> Iterator[Thing]:
    """Yield reservations with many expressions for owners, of which the last one fails, and a pod."""
    for number in range(reservations):
        terms = [
            {
                "selector": {
                    "matchExpressions": [
                        *(
                            {"key": f"k-{each}", "operator": "NotIn", "values": [f"{number}-{owner}"]}
                            for each in range(expressions - 1)
                        ),
                        {"key": "app", "operator": "DoesNotExist"},
                    ]
                }
            }
            for owner in range(owners)
        ]
        yield make_reservation(f"worst-{number}", {"owners": terms, "resources": {"cpu": "1m"}})
    yield make_pod("worst", labels={"app": "worst"})


def _selecting(number: int, last: Json) -> list[Json]:
    """Return owners by many expressions that most pods match, and a last one."""
    return [
        {
            "selector": {
                "matchExpressions": [
                    *(
                        {"key": f"k-{number}-{owner}-{each}", "operator": "DoesNotExist"}
                        for each in range(15)
                    ),
                    last,
                ]
            }
        }
        for owner in range(MOST_CONDITIONS // 16)
    ]


def _owners_of_gated(locks: int, pods: int, _nodes: int) -> Iterator[Thing]:
    """Yield waiting reservations with many expressions, and owners that are gated until one is active.

    They have their own namespace, as each reservation is compared with all placed pods of its namespace.
    """
    for number in range(locks):
        owners = _selecting(number, {"key": "app", "operator": "In", "values": ["worst"]})
        lock = make_reservation(f"worst-{number}", {"owners": owners, "resources": {"cpu": "1000"}})
        lock.body["metadata"]["namespace"] = "gated"
        yield lock
    for number in range(pods):
        pod = make_pod(
            f"worst-{number}",
            labels={"app": "worst", "n": str(number)},
            annotations={REQUIRE_RESERVATION: "true"},
        )
        pod.body["metadata"]["namespace"] = "gated"
        yield pod


def _reused(locks: int, _nodes: int) -> Iterator[Thing]:
    """Yield reusable reservations that fit nowhere, with all placed pods as owners by many expressions."""
    for number in range(locks):
        owners = _selecting(number, {"key": "none", "operator": "DoesNotExist"})
        yield make_reservation(
            f"worst-{number}", {"owners": owners, "resources": {"cpu": "1000"}, "reuse": "Always"}
        )


def _locks(count: int, spec: Json, _nodes: int) -> Iterator[Thing]:
    """Yield many equal reservations, which are all decided, or end, at the same instant."""
    for number in range(count):
        owners = [{"pod": {"name": f"worst-{number}"}}]
        yield make_reservation(f"worst-{number}", {"owners": owners, "resources": {"cpu": "1m"}, **spec})


def _owners_among_placed(last: str, _nodes: int) -> Iterator[Thing]:
    """Yield a member of a group with many expressions for owners. For placed pods the last one decides."""
    owners = []
    for owner in range(MOST_CONDITIONS // 16):
        wanted: list[Json] = [
            {"key": f"k-{owner}-{each}", "operator": "NotIn", "values": ["none"]} for each in range(15)
        ]
        owners.append({"selector": {"matchExpressions": [*wanted, {"key": "none", "operator": last}]}})
    group = {"name": "worst", "uid": "worst", "members": 1, "minMembers": 1}
    yield make_reservation("worst", {"owners": owners, "resources": {"cpu": "1m"}, "group": group})


def _schedules(count: int, schedule: str, _nodes: int) -> Iterator[Thing]:
    """Yield schedules, some of them for a time that never comes."""
    for number in range(count):
        yield Thing(
            "schedule",
            {
                "metadata": {"name": f"worst-{number}", "namespace": NAMESPACE, "uid": f"worst-{number}"},
                "spec": {
                    "schedule": schedule,
                    "timeZone": "Europe/Berlin",
                    "durationSeconds": 3_600,
                    "template": {"spec": {"owners": [{"pod": {"name": "worst"}}], "resources": {"cpu": "1"}}},
                },
            },
        )


def _quotes(count: int, _nodes: int) -> Iterator[Thing]:
    """Yield quotes for pods with many constraints and anti-affinity terms."""
    for number in range(count):
        template = make_template(LIMITS[CONSTRAINTS], LIMITS[POD_TERMS], number)
        metadata = {"name": f"worst-{number}", "namespace": NAMESPACE, "uid": f"worst-{number}"}
        yield Thing("quote", {"metadata": metadata, "spec": {"template": template}})


def _preemptor(constraints: int, terms: int, _nodes: int) -> Iterator[Thing]:
    """Yield a pod with many constraints and anti-affinity terms, which preempts others on any node."""
    spec = make_template(constraints, terms)["spec"]
    spec["containers"][0]["resources"]["requests"]["cpu"] = "16"
    yield make_pod("worst", labels={"app": "worst"}, priority=1_000, **spec)


def _storage(claims: int, expressions: int, nodes: int) -> Iterator[Thing]:
    """Yield claims with long selectors, as many volumes as nodes, and a pod that uses the claims."""
    local = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    yield Thing("storage_classes", {"metadata": {"name": "local", "uid": "local"}, **local})
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    for number in range(nodes):
        name = f"volume-{number}"
        metadata = {"name": name, "uid": name, "labels": {"app": "other"}}
        spec = {**common, "capacity": {"storage": "1Gi"}, "nfs": {"server": "nfs", "path": name}}
        status = {"phase": "Available"}
        yield Thing("persistent_volumes", {"metadata": metadata, "spec": spec, "status": status})
    wanted = [{"key": "app", "operator": "NotIn", "values": [f"x-{each}"]} for each in range(expressions)]
    for number in range(claims):
        name = f"claim-{number}"
        metadata = {"name": name, "namespace": NAMESPACE, "uid": name, "resourceVersion": "1"}
        selector, resources = {"matchExpressions": wanted}, {"requests": {"storage": "1Gi"}}
        spec = {**common, "resources": resources, "selector": selector}
        yield Thing("persistent_volume_claims", {"metadata": metadata, "spec": spec})
    yield make_pod(
        "worst",
        volumes=[
            {"name": f"v-{number}", "persistentVolumeClaim": {"claimName": f"claim-{number}"}}
            for number in range(claims)
        ],
    )


def _services(count: int, _nodes: int) -> Iterator[Thing]:
    """Yield Services that all select one pod, which the default constraints spread with their pods."""
    for number in range(count):
        metadata = {"name": f"worst-{number}", "namespace": NAMESPACE, "uid": f"worst-{number}"}
        yield Thing("services", {"metadata": metadata, "spec": {"selector": {"app": "worst"}}})
    yield make_pod("worst", labels={"app": "worst"})


def _controllers(expressions: int, _nodes: int) -> Iterator[Thing]:
    """Yield a ReplicaSet that selects all placed pods by many expressions, and a pod to spread with them."""
    wanted = [{"key": "app", "operator": "NotIn", "values": [f"x-{each}"]} for each in range(expressions)]
    metadata = {"name": "worst", "namespace": NAMESPACE, "uid": "worst"}
    yield Thing("replica_sets", {"metadata": metadata, "spec": {"selector": {"matchExpressions": wanted}}})
    pod = make_pod("worst", labels={"app": "worst"})
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "worst", "uid": "worst"}
    pod.body["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    yield pod


def _budgets(count: int, expressions: int, _nodes: int) -> Iterator[Thing]:
    """Yield budgets that select all placed pods, and a pod that preempts some of these on any node."""
    for number in range(count):
        metadata = {"name": f"worst-{number}", "namespace": NAMESPACE, "uid": f"worst-{number}"}
        wanted = [
            {"key": f"k-{each}", "operator": "NotIn", "values": [f"x-{number}"]}
            for each in range(expressions)
        ]
        spec = {"selector": {"matchExpressions": wanted}}
        yield Thing("pod_disruption_budgets", {"metadata": metadata, "spec": spec})
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": "16"}}}
    yield make_pod("worst", containers=[container], priority=1_000)


def _member(number: int, members: int, mode: str, asked: Json) -> Thing:
    group: Json = {"name": "worst", "uid": "worst", "members": members, "minMembers": members}
    if mode:
        group["topology"] = {"key": HOSTNAME, "mode": mode}
    owners = [{"pod": {"name": f"worst-{number}"}}]
    return make_reservation(f"worst-{number}", {"owners": owners, "group": group, **asked})


def _group(members: int, mode: str, _nodes: int, *, alike: bool = True) -> Iterator[Thing]:
    """Yield a group in which no two members fit on one node, because of their anti-affinity."""
    constraints, terms = OF_GROUPS[CONSTRAINTS] // members, OF_GROUPS[POD_TERMS] // members
    for number in range(members):
        template = make_template(constraints, terms, 0 if alike else number)
        yield _member(number, members, mode, {"template": template})


def _group_in_one_node(members: int, _nodes: int) -> Iterator[Thing]:
    """Yield a group that must be on one node, and is too large for any."""
    for number in range(members):
        yield _member(number, members, "Pack", {"resources": {"cpu": "1m"}})


def _group_of_ports(members: int, _nodes: int) -> Iterator[Thing]:
    """Yield a group with members that take many ports of their nodes."""
    ports = [{"containerPort": 1 + each, "hostPort": 1 + each} for each in range(OF_GROUPS[PORTS] // members)]
    container = {"name": "main", "image": "pause", "ports": ports}
    for number in range(members):
        yield _member(number, members, "", {"template": {"spec": {"containers": [container]}}})


def _more_than_group(count: int, _nodes: int) -> Iterator[Thing]:
    """Yield more members than their group has, which has one."""
    for number in range(count):
        yield _member(number, 1, "", {"template": make_template(LIMITS[CONSTRAINTS], LIMITS[POD_TERMS])})
