"""Small clusters with claims, volumes, storage classes and drivers, for the volume plugins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from hypothesis import strategies as st

from builders import Json, node, pod
from storage import (
    DRIVER,
    ZONE,
    Stored,
    attachment,
    claim,
    csi_driver,
    csi_node,
    put,
    storage_capacity,
    storage_class,
    volume,
)
from tidelock.cluster.placed import Placed
from tidelock.framework.api import Code, PreFilter
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from unit.plugins.scene import Judgement, Scene

T = TypeVar("T", bound=Stored)
Topologies = list[dict[str, list[str]]]

HOST = "kubernetes.io/hostname"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
NODES = ["node-a", "node-b", "node-c", "node-d"]
CLAIMS = ["one", "two", "three"]
VOLUMES = ["disk-1", "disk-2", "disk-3", "disk-4", "disk-5"]
SIZES = ["1Gi", "2Gi", "3Gi"]
GONE = ["gone"]


@dataclass(frozen=True)
class World:
    nodes: Sequence[Node]
    placed: Sequence[tuple[Pod, str]]
    stored: Sequence[Stored]

    def scene(self) -> Scene:
        """Build a scene of this cluster for plugins."""
        scene = Scene(*self.nodes)
        put(scene.objects, *self.stored)
        for each, node_name in self.placed:
            scene.cache.assume(each, node_name)
        return scene

    def all(self, kind: type[T]) -> list[T]:
        return [each for each in self.stored if isinstance(each, kind)]

    def find(self, kind: type[T], name: str) -> T | None:
        return next((each for each in self.all(kind) if each.meta.name == name), None)

    def pods_on(self, on: Node) -> list[Pod]:
        return [each for each, node_name in self.placed if node_name == on.name]

    def claim(self, name: str) -> PersistentVolumeClaim | None:
        return self.find(PersistentVolumeClaim, name)

    def volume(self, name: str) -> PersistentVolume | None:
        return self.find(PersistentVolume, name)

    def storage_class(self, name: str) -> StorageClass | None:
        return self.find(StorageClass, name)


LABELS: list[Json] = [
    {},
    {ZONE: "a"},
    {ZONE: "b"},
    {ZONE: "a", REGION: "east", "tier": "1"},
    {ZONE: "b", REGION: "west", "tier": "2"},
    {REGION: "east", "tier": "x"},
    {BETA_ZONE: "a"},
    {BETA_ZONE: "b", ZONE: "a"},
]


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    labels = draw(ALL_LABELS)
    names = NODES[: len(labels)] if draw(st.booleans()) else NODES[::-1][: len(labels)]
    return [node(name, labels={HOST: name} | each) for name, each in zip(names, labels, strict=True)]


HOSTS = [
    {"key": HOST, "operator": "In", "values": values}
    for values in (["node-a"], ["node-b"], ["node-c"], ["node-d", "node-a"], ["gone", "node-b", "node-b"])
]
REQUIREMENTS = [
    *HOSTS,
    {"key": ZONE, "operator": "In", "values": ["a", "c"]},
    {"key": ZONE, "operator": "NotIn", "values": ["a"]},
    {"key": ZONE, "operator": "Exists"},
    {"key": "tier", "operator": "DoesNotExist"},
    {"key": "tier", "operator": "Gt", "values": ["1"]},
    {"key": "tier", "operator": "Lt", "values": ["2"]},
]
TERMS: list[Json] = [
    *({"matchExpressions": [each]} for each in (*HOSTS, *REQUIREMENTS)),
    {"matchExpressions": [REQUIREMENTS[-1], REQUIREMENTS[-4]]},
    {"matchExpressions": []},
    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]},
    {
        "matchExpressions": [REQUIREMENTS[-5]],
        "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-a"]}],
    },
]
AFFINITIES: list[Json | None] = [
    None,
    *({"required": {"nodeSelectorTerms": [term]}} for term in TERMS),
    {"required": {"nodeSelectorTerms": []}},
    {"required": {"nodeSelectorTerms": [TERMS[0], TERMS[1], TERMS[-4]]}},
    {"required": {"nodeSelectorTerms": [TERMS[-1], TERMS[6]]}},
]
MODES = [["ReadWriteOncePod"], ["ReadOnlyMany", "ReadWriteOnce"], ["ReadOnlyMany"]]

# Fields in which a volume, or a claim, differs from the ordinary one. A third of them have none.
WAYS_OF_VOLUMES: list[Json] = [
    {"storage_class": "fast"},
    {"storage_class": "slow"},
    *({"modes": modes} for modes in MODES),
    {"labels": {ZONE: "a"}},
    {"labels": {ZONE: "a__b", REGION: "east"}},
    {"labels": {REGION: "east__west"}},
    {"labels": {BETA_ZONE: "b"}},
    {"labels": {ZONE: "a__", "disk": "ssd"}},
    {"phase": "Bound"},
    {"phase": "Released"},
    {"handle": "h-same"},
    *({"handle": f"h-{index}"} for index in range(4)),
    {"deleted": True},
    {"volumeMode": "Block"},
    {"volumeMode": "Filesystem"},
    *({"claimed_by": name} for name in (*CLAIMS, *GONE)),
    {"claimed_by": "one", "claim_uid": ""},
    {"claimed_by": "one", "claim_uid": "of its predecessor"},
    {"claimed_by": "two", "phase": "Bound"},
]
WAYS_OF_CLAIMS: list[Json] = [
    *({"volume": name} for name in (*VOLUMES, *GONE)),
    *({"volume": name, "storage_class": "slow"} for name in VOLUMES),
    *({"storage_class": name} for name in ("fast", "fast", "fast", "slow", "unheard-of", None)),
    {"storage_class": "fast", "size": "2Gi"},
    {"storage_class": "fast", "size": None},
    *({"size": size} for size in (None, "2Gi", "3Gi")),
    *({"modes": modes} for modes in MODES),
    *({"storage_class": "fast", "selected_node": name} for name in NODES),
    {"selected_node": "node-a"},
    {"phase": "Lost"},
    {"deleted": True},
    {"selector": {"matchLabels": {"disk": "ssd"}}},
    {"volumeMode": "Block"},
]


BOUND: list[Json] = [{"volume": name} for name in VOLUMES]


def ways(of: Sequence[Json]) -> st.SearchStrategy[Json]:
    return st.sampled_from([*of, *([{}] * (len(of) // 2))])


@dataclass(frozen=True)
class Flavour:
    """The kinds of volumes, claims and limits that are drawn most often."""

    volumes: tuple[Json, ...] = ()
    claims: tuple[Json, ...] = ()
    limits: tuple[int | None, ...] = (None,)

    @cached_property
    def ways_of_claims(self) -> st.SearchStrategy[Json]:
        return ways([*self.claims, *WAYS_OF_CLAIMS])

    @cached_property
    def limit(self) -> st.SearchStrategy[int | None]:
        return st.sampled_from(self.limits)


ANY = Flavour()
OF_ONE_POD = Flavour(claims=({"modes": MODES[0]},) * 40)
OF_A_DRIVER = Flavour(
    tuple(each for each in WAYS_OF_VOLUMES if "handle" in each) * 20,
    tuple(BOUND * 20 + [{"storage_class": "fast"}] * 50),
    (None, 0, 1, 1, 2, 2, 3),
)

# Strategies are built once, because Hypothesis spends more on a new strategy than on its draws.
ALL_LABELS = st.lists(st.sampled_from(LABELS), min_size=1, max_size=len(NODES))
ALL_WAYS_OF_VOLUMES = ways(WAYS_OF_VOLUMES)
ALL_SIZES = st.sampled_from(SIZES)
ALL_AFFINITIES = st.sampled_from(AFFINITIES)
COUNTS_OF_CLAIMS = st.sampled_from([3, 3, 3, 2])
OWNERS = st.sampled_from(["web-0", "web-0", "web-0", "stranger", ""])


@st.composite
def volumes(draw: st.DrawFn, name: str) -> PersistentVolume:
    fields = draw(ALL_WAYS_OF_VOLUMES)
    return volume(name, capacity=draw(ALL_SIZES), affinity=draw(ALL_AFFINITIES), **fields)


@st.composite
def claims(draw: st.DrawFn, name: str, flavour: Flavour, owner: str = "") -> PersistentVolumeClaim:
    return claim(name, **draw(flavour.ways_of_claims), owner=owner)


TOPOLOGIES: st.SearchStrategy[Topologies] = st.sampled_from(
    [[], [], [{ZONE: ["a"]}], [{ZONE: ["b"], "tier": ["1", "x"]}, {}], [{}]]
)
CAPACITIES = st.sampled_from(
    [
        storage_capacity("some", "2Gi", topology={}),
        storage_capacity("some", "1Gi", topology={"matchLabels": {ZONE: "a"}}),
        storage_capacity("some", "3Gi", topology={"matchLabels": {ZONE: "b", "tier": "1"}}),
        storage_capacity("other", "3Gi", topology={}, maximumVolumeSize="1Gi"),
        storage_capacity("other", None, topology={}),
        storage_capacity("other", "9Gi"),
        storage_capacity("other", "9Gi", storage_class="slow", topology={}),
    ]
)
ATTACHMENTS = st.sampled_from(
    [
        attachment(f"va-{volume}-{name}", volume, name)
        for volume in (*VOLUMES, *GONE)
        for name in ("node-a", "node-d", "gone")
    ]
)


OTHERS = st.lists(st.one_of(ATTACHMENTS, CAPACITIES), max_size=3)
INSTALLED = st.sampled_from([NODES, NODES, NODES, NODES[:2], NODES[1:], []])


@st.composite
def stored(draw: st.DrawFn, flavour: Flavour) -> list[Stored]:
    """Draw the objects other than nodes and pods, where some volumes and claims may be missing."""
    there: list[Stored] = [
        storage_class("local"),
        storage_class("fast", provisioner=DRIVER, topologies=draw(TOPOLOGIES)),
        storage_class("slow", provisioner=DRIVER, mode="Immediate"),
        csi_driver(storage_capacity=draw(st.booleans()), required=draw(st.booleans())),
    ]
    there += [draw(volumes(name)) for name in VOLUMES[draw(st.integers(0, 3)) :]]
    there += [draw(claims(name, flavour)) for name in CLAIMS[: draw(COUNTS_OF_CLAIMS)]]
    limits: dict[str, dict[str, int | None]] = {
        name: {"csi_example_com": draw(flavour.limit)} for name in draw(INSTALLED)
    }
    there += [csi_node(name, **limits.get(name, {})) for name in NODES]
    others = draw(OTHERS)
    there += {(type(each), each.meta.name): each for each in others}.values()
    owner = draw(OWNERS)
    if owner:
        there.append(draw(claims("web-0-scratch", flavour, owner=owner)))
    return there


def using(name: str) -> Json:
    return {"persistentVolumeClaim": {"claimName": name}}


def rbd(image: str, *monitors: str, read_only: bool = False) -> Json:
    return {"rbd": {"monitors": list(monitors), "pool": "rbd", "image": image, "readOnly": read_only}}


CLAIMED = [*map(using, CLAIMS)]
CLAIM_SOURCES = st.sampled_from([*(CLAIMED * 6), using("gone")])
SOURCES = st.sampled_from(
    [
        *CLAIMED,
        *CLAIMED,
        {"emptyDir": {}},
        {"gcePersistentDisk": {"pdName": "x", "readOnly": True}},
        {"gcePersistentDisk": {"pdName": "x"}},
        {"awsElasticBlockStore": {"volumeID": "x"}},
        {"awsElasticBlockStore": {"volumeID": "y"}},
        {"iscsi": {"iqn": "x", "readOnly": True}},
        {"iscsi": {"iqn": "x"}},
        rbd("x", "m", "n"),
        rbd("x", "n", "o", read_only=True),
        rbd("x", "o", read_only=True),
        rbd("y", "m"),
    ]
)


@st.composite
def pods(draw: st.DrawFn, name: str, sources: st.SearchStrategy[Json] = SOURCES) -> Pod:
    used = draw(st.lists(sources, min_size=1, max_size=3))
    mounted = [{"name": f"v-{index}", **source} for index, source in enumerate(used)]
    if draw(st.integers(0, 7)) == 7:
        mounted.append({"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}})
    return pod(name, volumes=mounted)


@st.composite
def worlds(draw: st.DrawFn, sources: st.SearchStrategy[Json] = SOURCES, flavour: Flavour = ANY) -> World:
    there = draw(nodes())
    places = st.sampled_from([*(each.name for each in there), *GONE])
    placed = [
        (draw(pods(f"other-{index}", sources)), draw(places)) for index in range(draw(st.integers(0, 3)))
    ]
    return World(there, placed, draw(stored(flavour)))


def moved(
    data: st.DataObject, judged: Judgement, world: World, sources: st.SearchStrategy[Json] = SOURCES
) -> World:
    """Remove pods and add one in the cycle state only, and return the world that has these changes."""
    plugin, placed = judged.plugin, list(world.placed)
    assert isinstance(plugin, PreFilter)
    leaving = data.draw(st.lists(st.sampled_from(world.placed), unique_by=id)) if placed else []
    for other, node_name in leaving:
        plugin.remove_pod(judged.state, judged.pod, Placed(other, node_name, assumed=False), judged.snapshot)
        placed.remove((other, node_name))
    comer, goal = data.draw(pods("comer", sources)), data.draw(st.sampled_from(world.nodes)).name
    plugin.add_pod(judged.state, judged.pod, Placed(comer, goal, assumed=True), judged.snapshot)
    return World(world.nodes, [*placed, (comer, goal)], world.stored)


def assert_filtered(
    judged: Judgement, world: World, reasons: Callable[[World, Pod, Node], Sequence[str]]
) -> None:
    """Assert that each node is ruled out by the reasons of a rule, and a pod is skipped only without any."""
    expected = {each.name: tuple(reasons(world, judged.pod, each)) for each in world.nodes}
    if judged.status.code is Code.SKIP:
        assert not any(expected.values())
        return
    assert judged.fitting == {name for name, why in expected.items() if not why}
    for name, why in expected.items():
        assert not why or judged.reasons(name) == why
