"""The operator in a world in which everything comes late, out of order, or gets lost."""

from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from builders import NOW, Json, node_json, pod_json, reservation_json
from property import invariants
from property.model_api import ModelApi, RefusedError, key_of
from property.process import HandClock, Process
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key

NODES = st.sampled_from(["node-a", "node-b"])
NUMBERS = st.sampled_from([0, 1])
CPUS = st.sampled_from(["1", "2", "3"])
NODE_CPUS = st.sampled_from(["4", "6", "2"])
GPU = "example.com/gpu"
# Few rules with many kinds: which rules are drawn at all differs from run to run, so few must suffice.
CHANGES = st.sampled_from(["delete", "finish", "resize", "label"])
EVENTS = st.sampled_from(["size", "size", "problem", "stranger", "stranger", "goes", "another"])
TROUBLES = st.sampled_from(["time", "time", "events", "crash", "slow crash"])
SECONDS = st.sampled_from([1, 9, 31, 300])

ANY_OWNERS = st.sampled_from(
    [
        [{"selector": {"matchLabels": {"app": "web"}}}],
        [{"controller": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}}],
        [{"pod": {"name": "web-1"}}, {"selector": {"matchLabels": {"app": "db"}}}],
    ]
)
AMOUNTS = st.fixed_dictionaries({"cpu": CPUS}, optional={GPU: st.just("1")})
ENDS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"ttlSeconds": 600, "expireAt": None},
        {"ttlSeconds": 30, "expireAt": None},
        {"ttlSeconds": None, "expireAt": format_instant(NOW + 60)},
        {"ttlSeconds": None, "expireAt": format_instant(NOW + 900)},
    ]
)
PLANS = st.fixed_dictionaries(
    {
        "priority": st.integers(0, 2),
        "pendingDeadlineSeconds": st.sampled_from([600, 5, 0]),
        "retention": st.sampled_from(["Delete", "Retain"]),
        "onViolation": st.sampled_from(["Keep", "Move"]),
    }
)
EDITS = st.one_of(
    st.fixed_dictionaries({"resources": AMOUNTS}),
    st.fixed_dictionaries({"owners": ANY_OWNERS}),
    st.fixed_dictionaries({"nodeName": st.none() | NODES}),
    ENDS,
    PLANS,
    st.just({"resources": {"cpu": "two"}}),
)


class World(RuleBasedStateMachine):
    """Users, kubelets, other schedulers and the network on one side, one operator on the other."""

    def __init__(self) -> None:
        super().__init__()
        self.api = ModelApi()
        self.nodes, self.pods, self.locks = self.api.nodes, self.api.pods, self.api.reservations
        self.clock = HandClock(NOW)
        self.process = Process(self.api, self.clock)
        self.disturbed: set[str] = set()  # nodes on which others have taken or destroyed room
        self._uids = 0

    @initialize(first=NODE_CPUS, second=NODE_CPUS)
    def two_nodes(self, first: str, second: str) -> None:
        for name, cpu in (("node-a", first), ("node-b", second)):
            gpus: dict[str, Any] = {GPU: "1"}
            self.nodes.put(node_json(name, cpu=cpu, pods="4", **gpus))
        self._go_on(calm=True)

    # Users.

    @rule(
        data=st.data(), number=NUMBERS, fate=st.sampled_from(["edit", "edit", "delete"]), calm=st.booleans()
    )
    def lock(self, data: st.DataObject, number: int, fate: str, calm: bool) -> None:
        """Create a Reservation, or edit or delete the one that there is."""
        key = Key("shop", f"lock-{number}")
        if key not in self.locks.objects:
            spec: dict[str, Any] = {
                "resources": data.draw(AMOUNTS),
                "owners": data.draw(st.just([{"pod": {"name": f"web-{number}"}}]) | ANY_OWNERS),
                "nodeName": data.draw(st.none() | NODES),
                **data.draw(ENDS),
                **data.draw(PLANS),
            }
            self.locks.put(reservation_json(key.name, uid=self._uid(), created=self.clock.now(), **spec))
        elif fate == "edit":
            with suppress(RefusedError):
                self.api.edit_spec(key, **data.draw(EDITS))
        else:
            self.locks.delete(key)
        self._go_on(calm)

    @rule(data=st.data(), number=NUMBERS, change=CHANGES, calm=st.booleans())
    def pod(self, data: st.DataObject, number: int, change: str, calm: bool) -> None:
        """Create a pod, or end or change the one that there is; one that runs is asked to end first."""
        stored = self.pods.objects.get(Key("shop", f"web-{number}"))
        if stored is None:
            self._create_pod(data, number)
        elif change == "label":
            self._change(stored, "metadata", labels={"changed": str(self._uid())})
        elif not stored["spec"]["nodeName"] or "deletionTimestamp" in stored["metadata"]:
            self.pods.delete(key_of(stored))
        elif change == "delete":
            self._change(stored, "metadata", deletionTimestamp=format_instant(self.clock.now()))
        elif change == "finish":
            self._change(stored, "status", phase="Succeeded")
        else:
            self.disturbed.add(stored["spec"]["nodeName"])
            resized = pod_json(requests={"cpu": data.draw(CPUS)})["spec"]["containers"]
            self._change(stored, "spec", containers=resized)
        self._go_on(calm)

    # The cluster.

    @rule(data=st.data(), name=NODES, event=EVENTS, calm=st.booleans())
    def node(self, data: st.DataObject, name: str, event: str, calm: bool) -> None:
        """Change a node's size or soundness, bind a pod to it behind the operator's back, or take it away."""
        stored = self.nodes.objects.get(Key("", name))
        if event != "problem" or stored is None:
            self.disturbed.add(name)
        if event == "stranger":
            self._bind_stranger(data, name)
        elif stored is None:
            self.nodes.put(node_json(name, uid=self._uid(), pods="4"))
        elif event == "size":
            amounts = {"cpu": data.draw(NODE_CPUS), GPU: data.draw(st.sampled_from(["0", "1"]))}
            self._change(stored, "status", allocatable=stored["status"]["allocatable"] | amounts)
        elif event == "problem":
            self._change(stored, "spec", unschedulable=data.draw(st.booleans()))
            ready = str(data.draw(st.booleans()))
            stored = self.nodes.objects[Key("", name)]
            self._change(stored, "status", conditions=[{"type": "Ready", "status": ready}])
        else:
            self.nodes.delete(Key("", name))
            if event == "another":
                self._change(stored, "metadata", uid=self._uid())
        self._go_on(calm)

    # The operator and the network.

    @precondition(lambda self: self.process.moves())
    @rule(data=st.data(), count=st.integers(5, 30), to_the_end=st.booleans())
    def go_on(self, data: st.DataObject, count: int, to_the_end: bool) -> None:
        """Let some of what is under way happen or fail, in any order."""
        for _ in range(count):
            moves = self.process.moves() | self.process.accidents()
            if moves:
                moves[data.draw(st.sampled_from(sorted(moves)))]()
                self.check()
        if to_the_end:
            self.settle()

    @rule(data=st.data(), kind=TROUBLES)
    def trouble(self, data: st.DataObject, kind: str) -> None:
        """Let time pass; lose events; crash, with bindings on their way, and come back."""
        process = self.process
        if kind == "time":
            self.clock.time += data.draw(SECONDS)
        elif kind == "events" and process.behind:
            process.watches[data.draw(st.sampled_from(process.behind))].relist()
        elif kind.endswith("crash"):
            for uid in process.unsent_bindings:
                if data.draw(st.booleans()):
                    process.send_binding(uid)
            self.process = Process(self.api, self.clock)
            if kind == "crash":
                self.process.catch_up()

    def settle(self) -> None:
        """I5 and I4: left alone, the operator comes to rest, and knows what the stored objects say."""
        self.process.settle(self.check)
        invariants.check_rebuild(self.process, self.api, self.clock)
        self.disturbed = {name for name in self.disturbed if self.process.columns.shortfall(name)}

    def teardown(self) -> None:
        self.settle()

    @invariant()
    def check(self) -> None:
        """I1 to I4."""
        invariants.check(self.process, self.api, self.disturbed)

    # Helpers.

    def _go_on(self, calm: bool) -> None:
        """In calm weather, let everything that is under way happen before the next thing comes."""
        if calm:
            self.process.settle(self.check)

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _create_pod(self, data: st.DataObject, number: int, node_name: str = "") -> None:
        required = data.draw(st.booleans())
        self.pods.put(
            pod_json(
                f"web-{number}",
                requests={"cpu": data.draw(CPUS)},
                uid=self._uid(),
                labels={"app": data.draw(st.sampled_from(["", "web", "db"]))},
                annotations={"tidelock.dev/require-reservation": str(required).lower()},
                controller="apps/v1/StatefulSet/web" if number == 0 else "",
                node_name=node_name,
            )
        )

    def _bind_stranger(self, data: st.DataObject, node_name: str) -> None:
        number = data.draw(NUMBERS)
        stored = self.pods.objects.get(Key("shop", f"web-{number}"))
        if stored is None:
            self._create_pod(data, number, node_name)
        else:
            with suppress(RefusedError):
                self.api.bind(key_of(stored), stored["metadata"]["uid"], node_name)

    def _change(self, stored: Json, part: str, **fields: Any) -> None:
        collection = self.pods if stored["metadata"]["namespace"] else self.nodes
        collection.put(stored | {part: stored[part] | fields})


TestWorld = World.TestCase
TestWorld.settings = settings(
    max_examples=100,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
