"""Small clusters with pods that concern each other, and with so few labels that many terms match."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st

from builders import node, pod
from tidelock.model.namespaces import Namespace
from tidelock.model.nodes import Node
from tidelock.model.pods import Pod
from tidelock.model.reserve_pod import ReservePod, reserve_pod_of
from unit.plugins.scene import Scene

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NAMES = ["node-a", "node-b", "node-c", "node-d", "node-e"]

Json = dict[str, Any]
Placement = tuple[Pod, str]
T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """Nodes, pods with the names of their nodes, and the labels of the known namespaces."""

    nodes: list[Node]
    placed: list[Placement]
    namespaces: dict[str, dict[str, str]]

    def node(self, name: str) -> Node | None:
        return next((each for each in self.nodes if each.name == name), None)

    def scene(self) -> Scene:
        """Build a scene of this cluster for plugins."""
        scene = Scene(*self.nodes)
        for each, node_name in self.placed:
            if isinstance(each, ReservePod):
                scene.cache.reserve_pods.put(each, node_name)
            else:
                scene.cache.assume(each, node_name)
        for name, labels in self.namespaces.items():
            metadata = {"name": name, "labels": labels}
            scene.objects.namespaces.upsert(None, msgspec.convert({"metadata": metadata}, Namespace))
        return scene

    def with_pods(self, *more: Placement) -> "World":
        return replace(self, placed=[*self.placed, *more])

    def without(self, *gone: Placement) -> "World":
        return replace(self, placed=[each for each in self.placed if each not in gone])


class Dice:
    """A source of random parts of a cluster, which shrinks to the first of several choices."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def one(self, *choices: T) -> T:
        return choices[self._random.randrange(len(choices))]

    def some(self, choices: Sequence[T], least: int, most: int) -> list[T]:
        """Draw distinct choices."""
        left = list(choices)
        count = min(least + self._random.randrange(most - least + 1), len(left))
        return [left.pop(self._random.randrange(len(left))) for _ in range(count)]

    def several(self, make: Callable[[], T], most: int, least: int = 0) -> list[T]:
        return [make() for _ in range(least + self._random.randrange(most - least + 1))]

    def node(self, name: str) -> Node:
        labels = self.one({ZONE: "a"}, {ZONE: "b"}, {ZONE: "a"}, {ZONE: "b"}, {ZONE: "c"}, {ZONE: ""}, {})
        host = self.one(*[{HOSTNAME: name}] * 6, {})
        taints: tuple[str, ...] = self.one((), (), ("dedicated=batch:NoSchedule",))
        return node(name, labels=labels | host, taints=taints)

    def namespace(self) -> str:
        return self.one("shop", "shop", "shop", "bank", "lab")

    def labels(self) -> dict[str, str]:
        app = self.one({"app": "web"}, {"app": "web"}, {"app": "db"}, {})
        return app | self.one({}, {"tier": "1"}, {"tier": "2"})

    def selector(self) -> Json | None:
        return self.one(
            {"matchLabels": {"app": "web"}},
            {"matchLabels": {"app": "web"}},
            {"matchLabels": {"app": "db"}, "matchExpressions": []},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]},
            {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["1"]}]},
            {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
            {},
            None,
        )

    def term(self) -> Json:
        namespaces: Json = self.one(
            {},
            {},
            {},
            {"namespaces": ["shop", "lab"]},
            {"namespaces": ["bank"], "namespaceSelector": {"matchLabels": {"team": "x"}}},
            {"namespaceSelector": {"matchLabels": {"team": "x"}}},
            {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}},
            {"namespaceSelector": {}},
        )
        key = self.one(ZONE, HOSTNAME)
        return without_none({"topologyKey": key, "labelSelector": self.selector(), **namespaces})

    def wish(self) -> Json:
        return {"weight": self.one(1, 5, 100), "podAffinityTerm": self.term()}

    def affinity(self, most: int) -> Json:
        return {
            kind: {
                "requiredDuringSchedulingIgnoredDuringExecution": self.several(self.term, most),
                "preferredDuringSchedulingIgnoredDuringExecution": self.several(self.wish, most),
            }
            for kind in ("podAffinity", "podAntiAffinity")
        }

    def pod(self, name: str, **spec: Any) -> Pod:
        return pod(
            name,
            namespace=self.namespace(),
            labels=self.labels(),
            deleted=self.one(False, False, False, True),
            **spec,
        )

    def demanding_pod(self, name: str) -> Pod:
        """Draw a pod with or without preferred and required affinity terms."""
        most = self.one(0, 1, 2)
        return self.pod(name, affinity=self.affinity(most)) if most else self.pod(name)

    def reserve_pod(self, of: Pod) -> Pod:
        """Draw the pod itself, or a reserve pod that is like it."""
        return self.one(of, of, reserve_pod_of(of.metadata, of.spec, of.requests))

    def world(self, make: Callable[[str], Pod], *, most: int = 8) -> World:
        nodes = [self.node(name) for name in self.some(NAMES, 2, 5)]
        homes = [*(each.name for each in nodes), "node-gone"]
        count = self._random.randrange(most + 1)
        placed = [(make(f"other-{index}"), self.one(*homes)) for index in range(count)]
        known = self.some(["shop", "bank", "lab"], 0, 3)
        return World(nodes, placed, {name: self.one({}, {"team": "x"}) for name in known})


DICE = st.builds(Dice, st.randoms(use_true_random=False))


def without_none(plain: Json) -> Json:
    return {key: value for key, value in plain.items() if value is not None}
