"""Admitted bindings, reservations and Tidelock's own pods, in any order: no capacity is given twice."""

import json
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from builders import SCHEDULER, Json, node, pod_json
from tidelock.binders.admission_check import UNSEEN_SECONDS, AdmissionCheck
from tidelock.binders.unbound_pods import UnboundPods
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import Pod, decode_pod
from tidelock.scheduler.core.cycle import AssumedPod
from unit.scheduler.machinery import Core

NODES = ("a", "b")
CPU = {"small": "1", "large": "3", "ours": "2"}
OURS = ("ours",)
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["reservation", "arrive", "admit", "see", "decide", "lapse", "go"]),
        st.sampled_from(sorted(CPU)),
        st.sampled_from(NODES),
    ),
    max_size=40,
)


class World:
    """Two nodes of four cores, the pods of the API server, and the operator's view of them."""

    def __init__(self) -> None:
        self.core = Core(*(node(name, cpu="4") for name in NODES))
        self.admission_check = AdmissionCheck(self.core.decider)
        self.unbound_pods = UnboundPods(self.core.event_handlers.pods, self.admission_check, self.core.clock)
        self.stored: dict[str, Pod] = {}
        self.admitted: dict[str, str] = {}
        self.owner: dict[str, str] = {}
        self.placed: AssumedPod | None = None

    def reservation(self, name: str, on: str) -> None:
        reservation = f"lock-{len(self.owner)}"
        self.owner[reservation] = name
        self.core.reservation(reservation, owner=name, nodeName=on, resources={"cpu": CPU[name]})
        self._step()

    def arrive(self, name: str, _: str) -> None:
        if name not in self.stored:
            self._store(name)

    def admit(self, name: str, on: str) -> None:
        if name in self.stored and not self.stored[name].node_name:
            known = self.core.cache.get(self.stored[name].uid) is not None
            refusal = self.admission_check.admit(self.stored[name], on, self.core.clock.now())
            if not refusal:
                own = self.core.ledger.ownership.of(self.stored[name])
                assert known or not any(entry.held for entry in own)
                self.admitted[name] = on

    def see(self, name: str, _: str) -> None:
        if name in self.admitted:
            self._store(name, self.admitted.pop(name))

    def decide(self, _name: str, _on: str) -> None:
        self._step()

    def lapse(self, _name: str, _on: str) -> None:
        self.core.clock.advance(UNSEEN_SECONDS)
        self.admission_check.lapse(self.core.clock.now())
        self.admitted.clear()

    def go(self, name: str, _: str) -> None:
        if name in self.stored:
            self.admitted.pop(name, None)
            self.unbound_pods.remove(self.stored.pop(name))
            if name in OURS and self.placed is not None:  # the pod to bind is gone
                self.core.decider.binding_failed(self.placed, self.core.clock.now())
                self.placed = None

    def check(self) -> None:
        columns, ledger = self.core.decider.columns, self.core.ledger
        for name in NODES:
            assert columns.shortfall(name) == {}, name
            placed = self.core.cache.pods_on(name)
            assert self.core.used(name) == sum(each.pod.requests["cpu"] for each in placed)
            held = [entry.held for entry in ledger.entries.values() if entry.node == name]
            held += [shift.before for shift in ledger.holdings.rests.values() if shift.node == name]
            assert self.core.reserved(name) == sum(each.get("cpu", 0) for each in held)
        for entry in ledger.entries.values():
            assert not entry.violation
            assert bool(entry.held) == (entry.phase is Phase.ACTIVE)
            owner = self.core.cache.get(f"uid-{self.owner[entry.key.name]}")
            assert entry.phase is not Phase.BOUND or owner is not None, "its owner is no longer being bound"
            assert not (entry.held and owner is not None and not owner.assumed), "its owner is bound"
        for name, on in self.admitted.items():
            found = self.core.cache.get(self.stored[name].uid)
            assert found is not None
            assert found.node_name == on

    def _step(self) -> None:
        outcome = self.core.step()
        if isinstance(outcome, AssumedPod):
            self.placed = outcome

    def _store(self, name: str, on: str = "") -> None:
        scheduler = SCHEDULER if name in OURS else "another"
        plain: Json = pod_json(name, requests={"cpu": CPU[name]}, node_name=on, scheduler=scheduler)
        old, self.stored[name] = self.stored.get(name), decode_pod(json.dumps(plain).encode())
        self.unbound_pods.upsert(old, self.stored[name])


@given(MOVES)
def test_admission_never_gives_capacity_twice(moves: list[tuple[str, str, str]]) -> None:
    world = World()
    for move, name, on in moves:
        act: Callable[[str, str], None] = getattr(world, move)
        act(name, on)
        world.check()
