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

NODES = st.sampled_from(["node-a", "node-b", "node-c"])
PODS = st.sampled_from(["web-0", "web-1", "web-2", "web-3", "web-4"])
LOCKS = st.sampled_from(["lock-0", "lock-1", "lock-2"])
CPUS = st.sampled_from(["1", "2", "3"])
NODE_CPUS = st.sampled_from(["4", "6", "2"])
APPS = st.sampled_from(["", "web", "db"])
SECONDS = st.sampled_from([1, 9, 31, 100])

OWNERS = st.sampled_from(
    [
        [{"pod": {"name": "web-0"}}],
        [{"pod": {"name": "web-1"}}],
        [{"pod": {"name": "web-2"}}],
        [{"selector": {"matchLabels": {"app": "web"}}}],
        [{"controller": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}}],
        [{"pod": {"name": "web-3"}}, {"selector": {"matchLabels": {"app": "db"}}}],
    ]
)
ENDS = st.sampled_from(
    [
        {"ttlSeconds": 600, "expireAt": None},
        {"ttlSeconds": 30, "expireAt": None},
        {"ttlSeconds": None, "expireAt": format_instant(NOW + 60)},
        {"ttlSeconds": None, "expireAt": format_instant(NOW + 900)},
    ]
)
AMOUNTS = st.fixed_dictionaries({"cpu": CPUS}, optional={"example.com/gpu": st.just("1")})
PLANS = st.fixed_dictionaries(
    {
        "priority": st.integers(0, 2),
        "pendingDeadlineSeconds": st.sampled_from([600, 5, 0]),
        "retention": st.sampled_from(["Delete", "Retain"]),
    }
)
SPECS = st.builds(
    lambda amounts, owners, node_name, end, plan: {
        "resources": amounts,
        "owners": owners,
        "nodeName": node_name,
        **end,
        **plan,
    },
    AMOUNTS,
    OWNERS,
    st.none() | NODES,
    ENDS,
    PLANS,
)
EDITS = st.one_of(
    st.fixed_dictionaries({"resources": AMOUNTS}),
    st.fixed_dictionaries({"owners": OWNERS}),
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

    # Nodes.

    @initialize(first=NODE_CPUS, second=NODE_CPUS)
    def two_nodes(self, first: str, second: str) -> None:
        self.nodes.put(node_json("node-a", cpu=first, pods="4"))
        self.nodes.put(node_json("node-b", cpu=second, pods="4"))
        self.process.settle()

    @rule(name=NODES, cpu=NODE_CPUS, gpu=st.sampled_from(["0", "1"]), sound=st.booleans())
    def set_node(self, name: str, cpu: str, gpu: str, sound: bool) -> None:
        """Add a node, or change its size and whether it is cordoned (node-a) or not ready (the others)."""
        known = self.nodes.objects.get(Key("", name))
        uid = known["metadata"]["uid"] if known else self._uid()
        extended: Json = {"example.com/gpu": gpu} if gpu != "0" else {}
        changed = node_json(
            name,
            cpu=cpu,
            pods="4",
            uid=uid,
            cordoned=name == "node-a" and not sound,
            ready=name == "node-a" or sound,
            **extended,
        )
        if known is None or known["status"]["allocatable"] != changed["status"]["allocatable"]:
            self.disturbed.add(name)
        self.nodes.put(changed)

    # Pods.

    @rule(name=PODS, cpu=CPUS, app=APPS, required=st.booleans(), calm=st.booleans())
    def create_pod(self, name: str, cpu: str, app: str, required: bool, calm: bool) -> None:
        annotations = {"tidelock.dev/require-reservation": "true"} if required else {}
        self._create_pod(name, cpu, labels={"app": app}, annotations=annotations)
        self._go_on(calm)

    @precondition(lambda self: self.pods.objects)
    @rule(data=st.data(), how=st.sampled_from(["delete", "delete", "finish", "change"]), cpu=CPUS)
    def change_pod(self, data: st.DataObject, how: str, cpu: str) -> None:
        """Delete a pod (one that runs is asked to end first), finish or resize it if it runs, or label it."""
        known = self.pods.objects[data.draw(st.sampled_from(sorted(self.pods.objects)))]
        running = bool(known["spec"]["nodeName"])
        if how == "delete" and running and "deletionTimestamp" not in known["metadata"]:
            leaving = {"deletionTimestamp": format_instant(self.clock.now())}
            self.pods.put(known | {"metadata": known["metadata"] | leaving})
        elif how == "delete":
            self.pods.delete(key_of(known))
        elif running and how == "finish":
            self.pods.put(known | {"status": {"phase": "Succeeded"}})
        elif how == "change" and not running:
            labels = {"changed": cpu}
            self.pods.put(known | {"metadata": known["metadata"] | {"labels": labels}})
        elif running:
            self.disturbed.add(known["spec"]["nodeName"])
            resized = pod_json("", requests={"cpu": cpu})["spec"]["containers"]
            self.pods.put(known | {"spec": known["spec"] | {"containers": resized}})

    # Reservations.

    @rule(name=LOCKS, spec=SPECS, calm=st.booleans())
    def create_lock(self, name: str, spec: Json, calm: bool) -> None:
        if Key("shop", name) not in self.locks.objects:
            self.locks.put(reservation_json(name, uid=self._uid(), created=self.clock.now(), **spec))
        self._go_on(calm)

    @precondition(lambda self: self.locks.objects)
    @rule(data=st.data(), changes=EDITS, calm=st.booleans())
    def edit_lock(self, data: st.DataObject, changes: Json, calm: bool) -> None:
        with suppress(RefusedError):
            self.api.edit_spec(data.draw(st.sampled_from(sorted(self.locks.objects))), **changes)
        self._go_on(calm)

    @precondition(lambda self: self.locks.objects)
    @rule(data=st.data())
    def delete_lock(self, data: st.DataObject) -> None:
        self.locks.delete(data.draw(st.sampled_from(sorted(self.locks.objects))))

    # The network and the operator.

    @precondition(lambda self: self.process.moves())
    @rule(data=st.data(), count=st.integers(1, 20))
    def go_on(self, data: st.DataObject, count: int) -> None:
        """Let some of what is under way happen: deliveries, decisions, bindings, writes and their answers."""
        for _ in range(count):
            moves = self.process.moves()
            if moves:
                moves[data.draw(st.sampled_from(sorted(moves)))]()

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: int) -> None:
        self.clock.time += seconds

    # Mischief.

    @rule(data=st.data(), kind=st.sampled_from(["foreign pod", "foreign pod", "delete", "recreate"]))
    def take_room(self, data: st.DataObject, kind: str) -> None:
        """Bind a pod behind the operator's back, or take a node away, or put another in its place."""
        node_name = data.draw(NODES)
        self.disturbed.add(node_name)
        known = self.nodes.objects.get(Key("", node_name))
        if kind == "foreign pod":
            name = data.draw(PODS)
            self._create_pod(name, data.draw(CPUS), labels={"app": data.draw(APPS)}, node_name=node_name)
            with suppress(RefusedError):
                stored = self.pods.objects[Key("shop", name)]
                self.api.bind(key_of(stored), stored["metadata"]["uid"], node_name)
        elif known is not None:
            self.nodes.delete(Key("", node_name))
            if kind == "recreate":
                self.nodes.put(known | {"metadata": known["metadata"] | {"uid": self._uid()}})

    @rule(data=st.data(), kind=st.sampled_from(["events", "binding", "answer", "crash", "slow crash"]))
    def fail(self, data: st.DataObject, kind: str) -> None:
        """Lose events, a binding before it arrives, or the answer to a write; or crash and come back."""
        process = self.process
        if kind == "events" and process.behind:
            process.watches[data.draw(st.sampled_from(process.behind))].relist()
        elif kind == "binding" and process.unsent_bindings:
            process.send_binding(process.unsent_bindings[0], arrives=False)
        elif kind == "answer" and process.write_answers:
            process.learn_write(next(iter(process.write_answers)), lost=True)
        elif kind.endswith("crash"):
            for uid in process.unsent_bindings:
                process.send_binding(uid, arrives=data.draw(st.booleans()))
            self.process = Process(self.api, self.clock)
            if kind == "crash":
                self.process.catch_up()

    @rule()
    def settle(self) -> None:
        """I5 and I4: left alone, the operator comes to rest, and knows what the stored objects say."""
        self.process.settle()
        invariants.check_server(self.process, self.api, self.disturbed)
        invariants.check_rebuild(self.process, self.api, self.clock)
        self.disturbed = {name for name in self.disturbed if self.process.columns.shortfall(name)}

    def teardown(self) -> None:
        self.settle()

    # What always holds.

    @invariant()
    def sums_agree(self) -> None:
        invariants.check_sums(self.process)

    @invariant()
    def one_holder(self) -> None:
        invariants.check_holders(self.process)

    @invariant()
    def nothing_is_held_too_long(self) -> None:
        invariants.check_ends(self.process)

    @invariant()
    def locks_have_their_room(self) -> None:
        invariants.check_room(self.process)

    @invariant()
    def no_node_is_overcommitted(self) -> None:
        invariants.check_server(self.process, self.api, self.disturbed)

    # Helpers.

    def _go_on(self, calm: bool) -> None:
        """In calm weather, let everything that is under way happen before the next thing comes."""
        if calm:
            self.process.settle()

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _create_pod(self, name: str, cpu: str, **fields: Any) -> None:
        if Key("shop", name) in self.pods.objects:
            return
        controller = "apps/v1/StatefulSet/web" if name == "web-0" else ""
        self.pods.put(pod_json(name, requests={"cpu": cpu}, uid=self._uid(), controller=controller, **fields))


TestWorld = World.TestCase
TestWorld.settings = settings(
    max_examples=60,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
