"""A model of all histories of two leaders and a reservation that is answered in the response to its creation.

A node has capacity for one of the reservation, a copy and a stranger. The copy is a second object: its author
has copied the answer. All else is as in `leaders`. A leader only knows the state that it has listed and
observed. A write is in flight until the API server applies or refuses it. Any leader may be stopped, crash,
or have a successor without knowing it. The webhook may ask a former leader, and may fail at any time.

Assumptions of the model:

- The API server compares the number in a write with the Lease in the same step in which it stores the write.
  A real API server runs its policies first, with its own copy of the Lease, and then other webhooks. A leader
  may acquire the Lease and list all reservations in between. The object is then stored with a grant that the
  new leader does not honour. `Rules.at_once` leaves this assumption out for answers: a client may then have a
  grant that is lost, and no capacity is given twice, not even by the leader after the next.
- A leader forgets a grant only when the object can't be stored any more, as after `UNSEEN_SECONDS`. By then
  it has seen an object that was stored.
- A copy is stored after the original. A watch shows both in that order, and a list is sorted by age.

Actions have the names of the code: `propose` and `conclude`, `take`, `lapse` and `resume` of ledger/answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

from model.search import Histories, search

Phase = Literal["", "Pending", "Active"]
Stage = Literal["new", "asked", "answered", "checked", "over"]


class Lock(NamedTuple):
    """A Reservation as the API server stores it: the leadership that has granted it, or 0, and its status."""

    grant: int
    status: Phase = ""


class World(NamedTuple):
    """The objects, as the API server stores or a leader knows them."""

    original: Lock | None = None
    copy: Lock | None = None
    stranger: bool = False


class Creation(NamedTuple):
    """The request that creates the reservation.

    `leader` and `epoch` are those of the process that was asked. `grant` is the leadership in the answer, or
    0.
    """

    stage: Stage = "new"
    leader: int = -1
    epoch: int = 0
    grant: int = 0


class Write(NamedTuple):
    """A request of a leader in flight. A status replaces exactly the status `before`."""

    epoch: int
    name: Literal["original", "copy", "stranger"]
    before: Phase = ""


class Leader(NamedTuple):
    """A process: the epoch in which it believes that it leads (0: none), its memory, and its requests.

    `unseen` is whether it holds capacity for an object that it has not seen. `original` and `copy` are the
    phases in its ledger.
    """

    epoch: int = 0
    memory: World | None = None
    unseen: bool = False
    original: Phase = ""
    copy: Phase = ""
    under_way: frozenset[Write] = frozenset()

    @property
    def free(self) -> bool:
        """Whether the node has capacity, as far as the leader knows."""
        assert self.memory is not None
        return not (self.memory.stranger or self.unseen or "Active" in (self.original, self.copy))

    def stopped(self, epoch: int = 0) -> "Leader":
        """Return the leader without its memory."""
        return Leader(epoch, under_way=self.under_way)


class State(NamedTuple):
    """The state of the API server and of both leaders."""

    api: World = World()
    creation: Creation = Creation()
    epoch: int = 0
    leaders: tuple[Leader, Leader] = (Leader(), Leader())

    def having(self, index: int, leader: Leader) -> "State":
        """Return the state with one of the leaders replaced."""
        pair = (leader, self.leaders[1]) if index == 0 else (self.leaders[0], leader)
        return self._replace(leaders=pair)


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that protect the capacity. Each can be left out, to show that it is needed."""

    fence: bool = True
    """The API server refuses answers, bindings and statuses of an epoch that is over."""
    keep: bool = True
    """A leader holds granted capacity until it sees the object, or the object can't be stored any more."""
    resume: bool = True
    """A leader holds the grants that it lists before it decides."""
    once: bool = True
    """A grant counts for one object."""
    judge: bool = True
    """A grant that no status shows is lost before capacity that a status or a pod has."""
    at_once: bool = True
    """The API server stores an object in the step in which it checks the answer."""
    elections: int = 2


def steps(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    """Yield each possible next step with the state that follows."""
    yield from _of_creation(state, rules)
    for index, leader in enumerate(state.leaders):
        for name, after in _of_leader(state, index, leader, rules):
            yield f"{'AB'[index]}: {name}", after
        for write in leader.under_way:
            yield f"API: {write}", _applied(state, index, leader, write, rules)


def violations(state: State) -> Iterator[str]:
    """Yield the guarantees that the stored state violates."""
    original, copy, stranger = state.api
    active = [each for each in (original, copy) if each is not None and each.status == "Active"]
    promised = original is not None and original.grant and not original.status
    if stranger + len(active) > 1:
        yield "the node is given twice"
    if promised and stranger + len(active) > 0:
        yield "granted capacity is given to another"
    if original is not None and original.grant and original.status == "Pending":
        yield "a stored grant is lost"


def _of_creation(state: State, rules: Rules) -> Iterator[tuple[str, State]]:
    creation, api = state.creation, state.api
    stage, over = creation.stage, creation.grant < state.epoch and bool(creation.grant) and rules.fence
    if stage == "new":
        for index, leader in enumerate(state.leaders):
            if leader.memory is not None:
                yield f"API: ask {'AB'[index]}", _created(state, "asked", leader=index, epoch=leader.epoch)
    if stage in ("new", "asked"):
        yield "API: the webhook fails", _created(state, "answered")
    if stage == "answered" and not over and not rules.at_once:
        yield "API: check the answer", _created(state, "checked")
    if (stage == "answered" and not over and rules.at_once) or stage == "checked":
        stored = api._replace(original=Lock(creation.grant))
        yield "API: store the object", _created(state, "over")._replace(api=stored)
    if stage != "over":
        yield "API: refuse or give up the creation", _created(state, "over")
    if api.original is not None and api.copy is None and api.original.grant:
        grant = api.original.grant
        if grant >= state.epoch or not rules.fence:
            yield "API: store a copy", state._replace(api=api._replace(copy=Lock(grant)))


def _created(state: State, stage: Stage, **fields: int) -> State:
    return state._replace(creation=state.creation._replace(stage=stage, **fields))


def _of_leader(state: State, index: int, leader: Leader, rules: Rules) -> Iterator[tuple[str, State]]:
    # As in `leaders`, this is possible at any time, and B is never the first.
    if index <= state.epoch < rules.elections and (leader.epoch == 0 or leader.epoch < state.epoch):
        led = state.epoch + 1
        yield "acquire", state.having(index, leader.stopped(led))._replace(epoch=led)
    if leader.epoch == 0:
        return
    yield "crash", state.having(index, leader.stopped())
    if leader.memory is None:
        yield "list and resume", state.having(index, _resumed(leader, state.api, rules))
        return
    if leader.memory != state.api:
        yield "observe", state.having(index, _observed(leader, leader.memory, state.api, rules))
    creation = state.creation
    if creation.stage == "asked" and (creation.leader, creation.epoch) == (index, leader.epoch):
        grant = leader.epoch if leader.free else 0
        concluded = leader._replace(unseen=bool(grant) and rules.keep)
        yield "propose and conclude", _created(state.having(index, concluded), "answered", grant=grant)
    if leader.unseen and creation.stage == "over" and state.api.original is None:
        yield "lapse", state.having(index, leader._replace(unseen=False))
    for name, after in _decisions(leader, leader.memory):
        yield name, state.having(index, after)


def _decisions(leader: Leader, memory: World) -> Iterator[tuple[str, Leader]]:
    if leader.free:
        bound = leader._replace(memory=memory._replace(stranger=True))
        yield "bind stranger", _sending(bound, Write(leader.epoch, "stranger"))
        if leader.original == "Pending":
            yield "admit original", leader._replace(original="Active")
        if leader.copy == "Pending":
            yield "admit copy", leader._replace(copy="Active")
    for name in ("original", "copy"):
        known: Lock | None = getattr(memory, name)
        if known is not None and known.status != getattr(leader, name):
            write = Write(leader.epoch, name, known.status)  # it is rendered when it is sent
            if write not in leader.under_way:
                yield f"write {name}", _sending(leader, write)


def _sending(leader: Leader, write: Write) -> Leader:
    return leader._replace(under_way=leader.under_way | {write})


def _resumed(leader: Leader, api: World, rules: Rules) -> Leader:
    """Return a leader that has listed all objects, and holds the capacity in their statuses and answers."""
    phases: dict[str, Phase] = {"original": "", "copy": ""}
    spent = False
    for name in phases:
        listed: Lock | None = getattr(api, name)
        if listed is not None:
            spent |= name == "original" and listed.status == "Active"  # with the `activatedAt` of the answer
            phases[name] = listed.status or "Pending"
    for name in phases:
        listed = getattr(api, name)
        if listed is not None and listed.grant and not listed.status and not spent and rules.resume:
            phases[name], spent = "Active", rules.once
            if rules.judge and (api.stranger or "Active" in (_status(api.original), _status(api.copy))):
                phases[name] = "Pending"
    return leader._replace(memory=api, original=phases["original"], copy=phases["copy"])


def _with(world: World, name: str, lock: Lock) -> World:
    return world._replace(original=lock) if name == "original" else world._replace(copy=lock)


def _status(lock: Lock | None) -> Phase:
    return "" if lock is None else lock.status


def _observed(leader: Leader, memory: World, api: World, rules: Rules) -> Leader:
    """Return a leader that has seen all changes. It keeps its own decisions."""
    if memory.original is None and api.original is not None:
        # `take`: a status is trusted, as another leader has written it.
        takes = leader.unseen and api.original.grant == leader.epoch
        status: Phase = api.original.status or ("Active" if takes else "Pending")
        leader = leader._replace(original=status, unseen=False if takes else leader.unseen)
    if memory.copy is None and api.copy is not None:
        takes = api.copy.grant == leader.epoch and not rules.once
        leader = leader._replace(copy=api.copy.status or ("Active" if takes else "Pending"))
    return leader._replace(memory=api._replace(stranger=api.stranger or memory.stranger))


def _applied(state: State, index: int, leader: Leader, write: Write, rules: Rules) -> State:
    """Apply or refuse a request, and pass the answer to its leader if that still waits for it."""
    api = state.api
    waits = leader.epoch == write.epoch and leader.memory is not None
    leader = leader._replace(under_way=leader.under_way - {write})
    refused = rules.fence and write.epoch < state.epoch
    if write.name == "stranger":
        refused = refused or api.stranger
        api = api._replace(stranger=True)
        if refused and waits and leader.memory is not None:
            leader = leader._replace(memory=leader.memory._replace(stranger=state.api.stranger))
    else:
        stored: Lock | None = getattr(api, write.name)
        refused = refused or stored is None or stored.status != write.before or not waits
        if stored is not None and leader.memory is not None and not refused:
            written = stored._replace(status=getattr(leader, write.name))
            api = _with(api, write.name, written)
            leader = leader._replace(memory=_with(leader.memory, write.name, written))
    return state.having(index, leader)._replace(api=state.api if refused else api)


def explore(rules: Rules, until: str = "") -> tuple[int, Histories]:
    """Visit all reachable states, or those until a violation of one kind."""
    return search(State(), partial(steps, rules=rules), violations, done=lambda found: until in found)
