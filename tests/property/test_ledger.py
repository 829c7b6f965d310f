"""The operator against a world in which everything comes late, out of order, or gets lost."""

import os

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from builders import NOW, SCHEDULER, Json, node_json, pod_json, reservation_json
from property import invariants
from property.model_api import ModelApi, RefusedError, key_of
from property.process import HandClock, Process
from tidelock.model.instants import format_instant
from tidelock.model.meta import Key

NODES = st.sampled_from(["node-a", "node-b", "node-c"])
PODS = st.sampled_from(["web-0", "web-1", "web-2"])
LOCKS = st.sampled_from(["lock-0", "lock-1", "lock-2"])
RESOURCES = st.sampled_from(["nodes", "pods", "reservations"])
CPUS = st.integers(1, 4).map(str)
GPUS = st.sampled_from(["0", "1"])
SECONDS = st.sampled_from([1, 5, 20, 60])

OWNERS = st.sampled_from(
    [
        [{"pod": {"name": "web-0"}}],
        [{"pod": {"name": "web-1"}}],
        [{"selector": {"matchLabels": {"app": "web"}}}],
        [{"controller": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}}],
        [{"pod": {"name": "web-2"}}, {"selector": {"matchLabels": {"app": "db"}}}],
    ]
)
ENDS = st.one_of(
    SECONDS.map(lambda seconds: {"ttlSeconds": seconds, "expireAt": None}),
    SECONDS.map(lambda seconds: {"ttlSeconds": None, "expireAt": format_instant(NOW + 3 * seconds)}),
)
AMOUNTS = st.fixed_dictionaries({"cpu": CPUS}, optional={"example.com/gpu": st.just("1")})
EDITS = st.one_of(
    AMOUNTS.map(lambda amounts: {"resources": amounts}),
    OWNERS.map(lambda owners: {"owners": owners}),
    st.none().map(lambda _: {"nodeName": None}) | NODES.map(lambda name: {"nodeName": name}),
    ENDS,
    st.integers(0, 2).map(lambda priority: {"priority": priority}),
    st.sampled_from([0, 5, 600]).map(lambda seconds: {"pendingDeadlineSeconds": seconds}),
    st.sampled_from([{"retention": "Delete"}, {"retention": "Retain"}]),
    st.just({"resources": {"cpu": "two"}}),
)


class World(RuleBasedStateMachine):
    """Users, kubelets, other schedulers and the network on one side, one operator on the other."""

    def __init__(self) -> None:
        super().__init__()
        self.api = ModelApi()
        self.clock = HandClock(NOW)
        self.process = Process(self.api, self.clock)
        self.advanced_to = 0.0
        self.disturbed: set[str] = set()  # nodes on which others have taken or destroyed room
        self._uids = 0

    # Nodes.

    @initialize(first=CPUS, second=CPUS)
    def two_nodes(self, first: str, second: str) -> None:
        self.api.nodes.put(node_json("node-a", cpu=first, pods="3"))
        self.api.nodes.put(node_json("node-b", cpu=second, pods="3"))
        self.process.settle()

    @rule(name=NODES, cpu=CPUS, gpu=GPUS, cordoned=st.booleans(), ready=st.booleans())
    def set_node(self, name: str, cpu: str, gpu: str, cordoned: bool, ready: bool) -> None:
        known = self.api.nodes.objects.get(Key("", name))
        uid = known["metadata"]["uid"] if known else self._uid()
        self.disturbed.add(name)
        extended = {"example.com/gpu": gpu} if gpu != "0" else {}
        self.api.nodes.put(
            node_json(name, cpu=cpu, pods="3", uid=uid, cordoned=cordoned, ready=ready, **extended)
        )

    @rule(name=NODES, again=st.booleans())
    def delete_node(self, name: str, again: bool) -> None:
        known = self.api.nodes.objects.get(Key("", name))
        if known is not None:
            self.disturbed.add(name)
            self.api.nodes.delete(Key("", name))
            if again:
                known["metadata"] |= {"uid": self._uid()}
                self.api.nodes.put(known)

    # Pods.

    @rule(
        name=PODS,
        cpu=CPUS,
        app=st.sampled_from(["web", "db"]),
        controller=st.sampled_from(["", "apps/v1/StatefulSet/web"]),
        required=st.booleans(),
    )
    def create_pod(self, name: str, cpu: str, app: str, controller: str, required: bool) -> None:
        self._create_pod(name, cpu, app=app, controller=controller, required=required)

    @rule(name=PODS, cpu=CPUS, node_name=NODES, app=st.sampled_from(["web", "db"]))
    def bind_behind_our_back(self, name: str, cpu: str, node_name: str, app: str) -> None:
        self.disturbed.add(node_name)
        known = self.api.pods.objects.get(Key("shop", name))
        if known is None:
            self._create_pod(name, cpu, app=app, node_name=node_name)
        elif not known["spec"]["nodeName"]:
            self._try(lambda: self.api.bind(key_of(known), known["metadata"]["uid"], node_name))

    @rule(name=PODS)
    def delete_pod(self, name: str) -> None:
        """Delete a pod: one that runs is asked to end first."""
        known = self.api.pods.objects.get(Key("shop", name))
        if known is None:
            return
        if known["spec"]["nodeName"] and "deletionTimestamp" not in known["metadata"]:
            leaving = known["metadata"] | {"deletionTimestamp": format_instant(self.clock.now())}
            self.api.pods.put(known | {"metadata": leaving})
        else:
            self.api.pods.delete(key_of(known))

    @rule(name=PODS, cpu=CPUS)
    def resize_pod(self, name: str, cpu: str) -> None:
        known = self._bound(name)
        if known is not None:
            self.disturbed.add(known["spec"]["nodeName"])
            resized = pod_json(name, requests={"cpu": cpu})["spec"]["containers"]
            self.api.pods.put(known | {"spec": known["spec"] | {"containers": resized}})

    @rule(name=PODS)
    def finish_pod(self, name: str) -> None:
        known = self._bound(name)
        if known is not None:
            self.api.pods.put(known | {"status": {"phase": "Succeeded"}})

    # Reservations.

    @rule(
        name=LOCKS,
        amounts=AMOUNTS,
        owners=OWNERS,
        end=ENDS,
        node_name=st.none() | NODES,
        fields=st.fixed_dictionaries(
            {
                "priority": st.integers(0, 2),
                "pendingDeadlineSeconds": st.sampled_from([0, 5, 600]),
                "retention": st.sampled_from(["Delete", "Retain"]),
            }
        ),
    )
    def create_lock(
        self, name: str, amounts: Json, owners: list[Json], end: Json, node_name: str | None, fields: Json
    ) -> None:
        if Key("shop", name) not in self.api.reservations.objects:
            spec = {"resources": amounts, "owners": owners, "nodeName": node_name, **end, **fields}
            self.api.reservations.put(
                reservation_json(name, uid=self._uid(), created=self.clock.now(), **spec)
            )

    @rule(name=LOCKS, changes=EDITS)
    def edit_lock(self, name: str, changes: Json) -> None:
        if Key("shop", name) in self.api.reservations.objects:
            self._try(lambda: self.api.edit_spec(Key("shop", name), **changes))

    @rule(name=LOCKS)
    def delete_lock(self, name: str) -> None:
        if Key("shop", name) in self.api.reservations.objects:
            self.api.reservations.delete(Key("shop", name))

    # The network and the operator.

    @rule(resource=RESOURCES, count=st.integers(1, 4))
    def deliver(self, resource: str, count: int) -> None:
        for _ in range(count):
            self.process.watches[resource].deliver()

    @rule(resource=RESOURCES)
    def lose_events(self, resource: str) -> None:
        self.process.watches[resource].relist()

    @rule(seconds=SECONDS)
    def pass_time(self, seconds: int) -> None:
        self.clock.time += seconds

    @rule(count=st.integers(1, 3))
    def decide(self, count: int) -> None:
        for _ in range(count):
            if self.process.feed.ready:
                self.advanced_to = self.clock.now()
            self.process.step()

    @rule(arrives=st.booleans(), learns=st.booleans())
    def bind(self, arrives: bool, learns: bool) -> None:
        for uid in tuple(self.process.in_flight)[:1]:
            if uid not in self.process.bind_answers:
                self.process.send_binding(uid, arrives=arrives)
            if learns:
                self.process.learn_binding(uid)

    @rule(count=st.integers(1, 3))
    def write(self, count: int) -> None:
        for key in tuple(self.process.unwritten)[:count]:
            if key not in self.process.write_answers:
                self.process.send_write(key)

    @rule(lost=st.booleans())
    def learn_of_write(self, lost: bool) -> None:
        for key in tuple(self.process.write_answers)[:1]:
            self.process.learn_write(key, lost=lost)

    @rule(arrives=st.booleans())
    def restart(self, arrives: bool) -> None:
        """Die and come back; what was on its way to the server gets there or does not."""
        for uid in tuple(self.process.in_flight):
            if arrives and uid not in self.process.bind_answers:
                self.process.send_binding(uid)
        self.process = Process(self.api, self.clock)
        self.advanced_to = 0.0

    @rule()
    def settle(self) -> None:
        """I5: when nothing happens any more, the operator comes to rest, and its state is that of the server."""
        self.process.settle()
        self.advanced_to = self.clock.now()
        assert not self.process.book._claims
        invariants.check_server(self.process, self.api, self.disturbed)
        self.disturbed = {
            name for name in self.disturbed if self.process.columns.shortfall(name)
        }
        self._compare_with_rebuild()

    def _compare_with_rebuild(self) -> None:
        """I4: what the operator knows is what another would make of the stored objects."""
        rebuilt = Process(self.api, self.clock, scheduler_name="nobody")
        rebuilt.catch_up()
        assert _held(rebuilt) == _held(self.process)
        assert _amounts(rebuilt) == _amounts(self.process)
        for key, entry in self.process.book.entries.items():
            stored = self.api.reservations.objects[key]["status"]
            assert self.process.wanted(entry) == stored
            if not entry.problem:
                assert rebuilt.wanted(rebuilt.book.entries[key]) == stored
        rebuilt.decide()
        assert _held(rebuilt) == _held(self.process), "what waits has room"

    # What always holds.

    @invariant()
    def sums_agree(self) -> None:
        invariants.check_sums(self.process)

    @invariant()
    def one_holder(self) -> None:
        invariants.check_holders(self.process, set(self.process.in_flight))

    @invariant()
    def nothing_is_held_too_long(self) -> None:
        invariants.check_ends(self.process, self.advanced_to)

    @invariant()
    def locks_have_their_room(self) -> None:
        invariants.check_room(self.process)

    @invariant()
    def no_node_is_overcommitted(self) -> None:
        invariants.check_server(self.process, self.api, self.disturbed)

    def teardown(self) -> None:
        self.settle()

    # Helpers.

    def _uid(self) -> str:
        self._uids += 1
        return f"uid-{self._uids}"

    def _bound(self, name: str) -> Json | None:
        known = self.api.pods.objects.get(Key("shop", name))
        return known if known and known["spec"]["nodeName"] else None

    def _create_pod(
        self, name: str, cpu: str, *, app: str, controller: str = "", required: bool = False, node_name: str = ""
    ) -> None:
        if Key("shop", name) in self.api.pods.objects:
            return
        self.api.pods.put(
            pod_json(
                name,
                requests={"cpu": cpu},
                uid=self._uid(),
                labels={"app": app},
                controller=controller,
                annotations={"tidelock.dev/require-reservation": str(required).lower()},
                node_name=node_name,
                scheduler=SCHEDULER,
            )
        )

    @staticmethod
    def _try(write: object) -> None:
        try:
            write()  # type: ignore[operator]
        except RefusedError:
            pass


def _held(process: Process) -> dict[Key, Json]:
    return {
        key: {
            "phase": entry.phase,
            "node": (entry.node, entry.node_uid),
            "held": dict(entry.held),
            "expires": entry.expires_at,
            "deadline": entry.deadline() if entry.move_at is None else None,
        }
        for key, entry in process.book.entries.items()
    }


def _amounts(process: Process) -> dict[str, list[dict[str, int]]]:
    columns = process.columns
    return {
        name: [columns.named(amounts[row]) for amounts in (columns.allocatable, columns.requested, columns.locked)]
        for name, row in columns.row_of.items()
    }


World.TestCase.settings = settings(
    max_examples=int(os.environ.get("EXAMPLES", "40")),
    stateful_step_count=int(os.environ.get("STEPS", "50")),
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
TestWorld = World.TestCase
