"""Small clusters whose pods have something to do with each other: few labels, so that much coincides."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from builders import node, pod
from tidelock.model.meta import ObjectMeta
from tidelock.model.namespaces import Namespace
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from unit.plugins.scene import Scene

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NAMES = ["node-a", "node-b", "node-c", "node-d", "node-e"]
NAMESPACES = ["shop", "bank", "lab"]

Json = dict[str, Any]
Placement = tuple[Pod, str]


@dataclass(frozen=True)
class World:
    """Nodes, pods with the names of their nodes, and the labels of the namespaces that are known."""

    nodes: list[Node]
    placed: list[Placement]
    namespaces: dict[str, dict[str, str]]

    def node(self, name: str) -> Node | None:
        return next((each for each in self.nodes if each.name == name), None)

    def scene(self) -> Scene:
        """Build what plugins look at."""
        scene = Scene(*self.nodes)
        for each, node_name in self.placed:
            scene.cache.assume(each, node_name)
        for name, labels in self.namespaces.items():
            scene.objects.namespaces.upsert(None, Namespace(ObjectMeta(name=name, labels=labels)))
        return scene

    def with_pods(self, *more: Placement) -> "World":
        return replace(self, placed=[*self.placed, *more])

    def without(self, *gone: Placement) -> "World":
        return replace(self, placed=[each for each in self.placed if each not in gone])


KEYS = st.sampled_from([HOSTNAME, ZONE])
NODE_LABELS = st.fixed_dictionaries({}, optional={ZONE: st.sampled_from(["a", "b", "c"])}) | st.just(
    {ZONE: ""}
)
POD_LABELS = st.fixed_dictionaries(
    {}, optional={"app": st.sampled_from(["web", "db"]), "tier": st.sampled_from(["1", "2"])}
)
EXPRESSIONS = st.sampled_from(
    [
        {"key": "app", "operator": "In", "values": ["web"]},
        {"key": "app", "operator": "In", "values": ["web", "db"]},
        {"key": "tier", "operator": "NotIn", "values": ["1"]},
        {"key": "tier", "operator": "Exists"},
        {"key": "tier", "operator": "DoesNotExist"},
    ]
)
SELECTORS: st.SearchStrategy[Json | None] = st.none() | st.fixed_dictionaries(
    {}, optional={"matchLabels": POD_LABELS, "matchExpressions": st.lists(EXPRESSIONS, max_size=2)}
)
NAMESPACE_SELECTORS = st.sampled_from(
    [
        {},
        {"matchLabels": {"team": "x"}},
        {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
    ]
)
TOLERATIONS = st.lists(st.just({"key": "dedicated", "operator": "Exists"}), max_size=1)


def without_none(plain: Json) -> Json:
    return {key: value for key, value in plain.items() if value is not None}


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    found = []
    for name in names:
        labels = draw(NODE_LABELS)
        if draw(st.integers(0, 5)):
            labels = {HOSTNAME: name, **labels}
        taints = ["dedicated=batch:NoSchedule"] if not draw(st.integers(0, 3)) else []
        found.append(node(name, labels=labels, taints=taints))
    return found


@st.composite
def terms(draw: st.DrawFn) -> Json:
    return without_none(
        {
            "topologyKey": draw(KEYS),
            "labelSelector": draw(SELECTORS),
            "namespaces": draw(st.none() | st.lists(st.sampled_from(NAMESPACES), unique=True)),
            "namespaceSelector": draw(st.none() | st.none() | NAMESPACE_SELECTORS),
        }
    )


WISHES = st.lists(
    st.builds(lambda term, weight: {"weight": weight, "podAffinityTerm": term}, terms(), st.integers(1, 100)),
    max_size=2,
)
AFFINITIES = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.lists(terms(), max_size=2),
        "preferredDuringSchedulingIgnoredDuringExecution": WISHES,
    },
)


@st.composite
def pods(draw: st.DrawFn, /, name: str, *, affinity: bool = False, **spec: Any) -> Pod:
    if affinity and draw(st.booleans()):
        both = {"podAffinity": AFFINITIES, "podAntiAffinity": AFFINITIES}
        spec["affinity"] = draw(st.fixed_dictionaries({}, optional=both))
    return pod(
        name,
        uid=f"uid-{name}",
        namespace=draw(st.sampled_from(["shop", "shop", *NAMESPACES])),
        labels=draw(POD_LABELS),
        deleted=not draw(st.integers(0, 5)),
        **spec,
    )


@st.composite
def worlds(draw: st.DrawFn, *, affinity: bool = False) -> World:
    there = draw(nodes())
    homes = st.sampled_from([*(each.name for each in there), "node-gone"])
    placed = [
        (draw(pods(f"other-{index}", affinity=affinity)), draw(homes))
        for index in range(draw(st.integers(0, 6)))
    ]
    labels = st.sampled_from([{}, {"team": "x"}])
    known = draw(st.lists(st.sampled_from(NAMESPACES), unique=True))
    return World(there, placed, {name: draw(labels) for name in known})
