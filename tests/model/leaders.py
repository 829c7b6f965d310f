"""A model of all histories of two leaders, two nodes, a reservation, its owner and a stranger, step by step.

A node has capacity for one of reservation, owner and stranger. A leader only knows the state that it has
listed and observed, and its own decisions. A write is in flight until the API server applies or refuses it,
in any order and after any delay. So the histories include a leader that is stopped for hours between two of
its steps, one that crashes, and one that has a successor without knowing it. A leader does not even check by
its clock whether it still leads (`Leadership.check`). So all guarantees rest on the checks of the API server.

Actions have the names of the code: `acquire` and the fence of kube/lease, `rebuild`, `admit`, `claim`,
`take_back`, `expire` and `release` of the ledger, and `bind` of the binder.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from model.search import Histories, search

NODES = (0, 1)
ROOM = 1
ELECTIONS = 2

Phase = Literal["Pending", "Active", "Gone"]


@dataclass(frozen=True, slots=True)
class Lock:
    """The Reservation as the API server stores it, or as a leader knows it."""

    phase: Phase = "Pending"
    node: int = -1
    version: int = 0


@dataclass(frozen=True, slots=True)
class World:
    """The reservation and the nodes of the pods, as the API server stores or a leader knows them.

    A node of -1 means that the pod is not bound.
    """

    reservation: Lock = Lock()
    owner: int = -1
    stranger: int = -1

    def placing(self, what: str, node: int) -> "World":
        """Return the world with the owner or the stranger on a node, or not bound."""
        return replace(self, owner=node) if what == "owner" else replace(self, stranger=node)

    def taken(self, node: int, *, expired: bool) -> int:
        """Count the bound pods on a node, and the reservation until its owner is bound."""
        held = (
            self.reservation.phase == "Active"
            and self.reservation.node == node
            and self.owner < 0
            and not expired
        )
        return held + (self.owner == node) + (self.stranger == node)


@dataclass(frozen=True, slots=True)
class Write:
    """A request in flight. If it changes the reservation, `version` is its precondition."""

    verb: Literal["bind", "activate", "delete"]
    epoch: int
    what: str
    node: int = -1
    version: int = 0


@dataclass(frozen=True, slots=True)
class Leader:
    """A process: the epoch in which it believes that it leads (0: none), its memory, and its requests."""

    epoch: int = 0
    memory: World | None = None
    under_way: frozenset[Write] = frozenset()

    def sends(self, write: Write) -> "Leader":
        """Return the leader with one more request in flight."""
        return replace(self, under_way=self.under_way | {write})


@dataclass(frozen=True, slots=True)
class State:
    """The state of the API server, the clock and both leaders."""

    api: World = World()
    epoch: int = 0
    expired: bool = False
    leaders: tuple[Leader, Leader] = (Leader(), Leader())

    def having(self, index: int, leader: Leader) -> "State":
        """Return the state with one of the leaders replaced."""
        pair = (leader, self.leaders[1]) if index == 0 else (self.leaders[0], leader)
        return replace(self, leaders=pair)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that protect the capacity. Each can be left out, to show that it is needed."""

    fence: bool = True
    """The API server refuses bindings and statuses of an epoch that is over."""
    delete_after_bind: bool = True
    """The reservation is deleted when its owner's binding is confirmed, not when it is sent."""


def steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """Yield each possible next step with the state that follows."""
    if not state.expired:
        yield "the clock passes expiresAt", replace(state, expired=True)
    for index, leader in enumerate(state.leaders):
        for name, after in _of_leader(state, index, leader, rules):
            yield f"{'AB'[index]}: {name}", after
        for write in leader.under_way:
            yield f"API: {write}", _applied(state, index, leader, write, rules)


def violations(state: State) -> Iterator[str]:
    """Yield the guarantees that the stored state violates."""
    for node in NODES:
        if state.api.taken(node, expired=state.expired) > ROOM:
            yield f"node {node} is given twice"
    if state.api.reservation.phase == "Gone" and state.api.owner < 0 and not state.expired:
        yield "the lock is gone, and neither has its owner come nor its time"


def _of_leader(state: State, index: int, leader: Leader, rules: Rules) -> Iterator[tuple[str, State]]:
    # A new leader knows nothing before it has listed everything.
    if index <= state.epoch < ELECTIONS and (leader.epoch == 0 or leader.epoch < state.epoch):
        # This is possible at any time, because a Lease ends without its holder's knowledge. The leaders are
        # symmetric, so B is never the first.
        led = state.epoch + 1
        yield "acquire", replace(state.having(index, replace(leader, epoch=led, memory=None)), epoch=led)
    if leader.epoch == 0:
        return
    yield "crash", state.having(index, replace(leader, epoch=0, memory=None))
    memory = leader.memory
    if memory is None:
        yield "rebuild", state.having(index, replace(leader, memory=state.api))
        return
    if not leader.under_way and memory != state.api:
        yield "observe", state.having(index, replace(leader, memory=state.api))
    for name, after in _decisions(leader, memory, rules, expired=state.expired):
        yield name, state.having(index, after)


def _decisions(leader: Leader, memory: World, rules: Rules, *, expired: bool) -> Iterator[tuple[str, Leader]]:
    reservation, epoch = memory.reservation, leader.epoch
    for node in NODES:
        free = memory.taken(node, expired=False) < ROOM
        if reservation.phase == "Pending" and free and not expired and memory.owner < 0:
            admitted = replace(memory, reservation=replace(reservation, phase="Active", node=node))
            write = Write("activate", epoch, "lock", node, reservation.version)
            yield f"admit on {node}", replace(leader, memory=admitted).sends(write)
        if memory.stranger < 0 and free:
            placed = replace(memory, stranger=node)
            yield (
                f"bind stranger to {node}",
                replace(leader, memory=placed).sends(Write("bind", epoch, "stranger", node)),
            )
        # An owner prefers the node of its reservation, where it always fits.
        fits = reservation.node == node if reservation.phase == "Active" and not expired else free
        if memory.owner < 0 and fits:
            claimed = replace(leader, memory=replace(memory, owner=node))
            bound = claimed.sends(Write("bind", epoch, "owner", node))
            yield (
                f"claim and bind owner to {node}",
                bound if rules.delete_after_bind else bound.sends(_delete(memory, epoch)),
            )
    if expired and reservation.phase == "Active" and memory.owner < 0:
        freed = replace(memory, reservation=replace(reservation, phase="Gone"))
        yield "expire", replace(leader, memory=freed).sends(_delete(memory, epoch))


def _delete(memory: World, epoch: int) -> Write:
    return Write("delete", epoch, "lock", version=memory.reservation.version)


def _applied(state: State, index: int, leader: Leader, write: Write, rules: Rules) -> State:
    """Apply or refuse a request, and pass the answer to its leader if that still waits for it."""
    api = state.api
    leader = replace(leader, under_way=leader.under_way - {write})
    over = rules.fence and write.epoch < state.epoch
    outdated = write.version != api.reservation.version
    if write.verb == "bind":
        refused = over or getattr(api, write.what) >= 0
        if not refused:
            api = api.placing(write.what, write.node)
    elif write.verb == "activate":
        refused = over or outdated or api.reservation.phase == "Gone"
        if not refused:
            api = replace(api, reservation=Lock("Active", write.node, api.reservation.version + 1))
    else:
        refused = outdated  # a deletion can't carry an epoch
        if not refused:
            api = replace(
                api, reservation=replace(api.reservation, phase="Gone", version=api.reservation.version + 1)
            )
    state = replace(state, api=api)
    waits = leader.epoch == write.epoch and leader.memory is not None
    return state.having(index, _answered(leader, state, write, refused=refused) if waits else leader)


def _answered(leader: Leader, state: State, write: Write, *, refused: bool) -> Leader:
    memory = leader.memory
    assert memory is not None
    if write.verb == "bind":
        if refused:  # take_back: the reservation is held again, as the pod is not bound
            return replace(leader, memory=memory.placing(write.what, -1))
        if write.what == "owner" and memory.reservation.phase == "Active":  # release
            return leader.sends(_delete(memory, leader.epoch))
    elif write.verb == "activate" and not refused:
        return replace(
            leader,
            memory=replace(
                memory, reservation=replace(memory.reservation, version=state.api.reservation.version)
            ),
        )
    elif write.verb == "activate":
        # It is written again from the stored state.
        return replace(leader, memory=replace(memory, reservation=state.api.reservation))
    return leader


def explore(rules: Rules) -> tuple[int, Histories]:
    """Visit all reachable states, or those until the first violation."""
    return search(State(), partial(steps, rules=rules), violations, done=bool)
