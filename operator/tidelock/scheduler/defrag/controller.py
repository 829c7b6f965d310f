"""The life of migration plans: searched, published, begun once approved, and carried out or given up.

It does no I/O: the driver carries evictions out. A plan is begun only if it is valid at that moment. Its pods
are evicted one after the other, each only while that still helps.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tidelock.cluster.cache import Cache
from tidelock.framework.extension_point_timer import PluginError
from tidelock.ledger.ledger import Ledger
from tidelock.ledger.lifecycle.migration import MigrationPlan, approved, migration_is_stored
from tidelock.ledger.lifecycle.steady_clock import SteadyClock
from tidelock.ledger.lifecycle.timers import Timers
from tidelock.ledger.lifecycle.transitions import Event
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.meta import Key
from tidelock.model.pods import Pod
from tidelock.scheduler.defrag.planner import DefragmentationPlanner, Destination

# Seconds between two searches for a reservation, and between two for any of them: on a large cluster
# one takes up to 45 ms, in which nothing else is decided.
PLAN_SECONDS = 10.0
_PAUSE = 0.5

_GIVEN_UP = "given up"
_NONE_FOUND = "moving as many pods as allowed would free enough capacity on no node"
_NONE_LEFT = "as many pods have moved as allowed, and there is still not enough capacity"


@dataclass(frozen=True, slots=True)
class MigrationTask:
    """A plan of a reservation, for a driver to carry out."""

    reservation: Key
    uid: str
    token: str
    begun_at: float | None


class DefragmentationController:
    """Keeps the migration plans of all reservations."""

    def __init__(
        self,
        ledger: Ledger,
        cache: Cache,
        relocation: DefragmentationPlanner,
        plan_seconds: float = PLAN_SECONDS,
    ) -> None:
        """Take the parts that search, and the seconds between two searches for a reservation."""
        self._ledger = ledger
        self._cache = cache
        self._planner = relocation
        self._plan_seconds = plan_seconds
        self._steady = SteadyClock()
        self._looks: Timers[Key] = Timers()  # by steady time, as is `_free_at`
        self._awaited: set[Key] = set()  # those that have a look to come
        self._urgent: dict[Key, None] = {}
        self._free_at = 0.0
        self._begun: dict[str, MigrationTask] = {}
        self._tasks: list[MigrationTask] = []

    def take(self) -> list[MigrationTask]:
        """Return the plans under way that were looked at since the last call, each of them repeatedly."""
        tasks, self._tasks = self._tasks, []
        return tasks

    def want(self, entry: ReservationInfo, now: float) -> None:
        """Schedule a search for a refused reservation, if pods may move for it."""
        if entry.plan is not None:
            self._urgent[entry.key] = None
        elif entry.may_move and entry.key not in self._awaited:
            self._await(entry.key, 0.0, now)

    def next_due(self) -> float | None:
        """Return when `step` has something to do: 0 for at once, None for never."""
        if self._urgent or self._ledger.nominations.planned:
            return 0.0
        due = self._looks.next()
        return None if due is None else self._steady.instant(max(due, self._free_at))

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do, now or later."""
        return not (self._awaited or self._urgent or self._ledger.nominations.planned)

    def step(self, now: float) -> None:
        """Go on with the plans that have changed, and look for one."""
        if self.idle:
            return
        at = self._steady.at(now)
        due = self.next_due()
        if due is None or due > now:
            return
        changed = [entry.key for entry in self._ledger.nominations.planned.take()]
        urgent, self._urgent = self._urgent, {}
        for key in (*changed, *urgent):
            if (entry := self._ledger.entries.get(key)) is not None and entry.plan is not None:
                self._follow(entry, entry.plan, now)
        due = self.next_due()
        if due is not None and due <= now:
            for key in self._looks.pop_due(at):
                self._awaited.discard(key)
                if (entry := self._ledger.entries.get(key)) is not None and entry.may_move:
                    self._free_at = at + _PAUSE
                    self._look(entry, now)
                    return

    def next_victim(self, task: MigrationTask) -> Pod | None:
        """Return the next pod of a plan to evict, or None if the plan has ended."""
        entry, plan = self._plan_of(task)
        if entry is None or plan is None or not migration_is_stored(entry.reservation, plan):
            return None
        if not approved(entry.reservation, plan) or self._cache.nominator.node_of(entry.uid) != plan.node:
            return None
        for move in plan.moves:
            placed = self._cache.get(move.uid)
            if placed is None or placed.pod.leaving or move.uid in self._cache.evicting:
                continue
            if not self._planner.movable(move.uid, entry):
                return None
            self._ledger.nominations.note_progress(entry, plan.trying(move.uid))
            return placed.pod
        return None

    def evicted(self, uid: str) -> None:
        """Note that a pod is being evicted."""
        if self._cache.get(uid) is not None:
            self._cache.evicting.add(uid)

    def spared(self, task: MigrationTask, uid: str) -> None:
        """Note that a pod was not evicted, and will not be without another request."""
        entry, plan = self._plan_of(task)
        if entry is not None and plan is not None:
            self._ledger.nominations.note_progress(entry, plan.spared(uid))

    def failed(self, task: MigrationTask, why: str, now: float) -> None:
        """Note that a plan can't be carried out."""
        entry, plan = self._plan_of(task)
        if entry is not None and plan is not None:
            self._give_up(entry, why, now)

    def _plan_of(self, task: MigrationTask) -> tuple[ReservationInfo | None, MigrationPlan | None]:
        entry = self._ledger.entries.get(task.reservation)
        if entry is None or entry.plan is None or _task(entry, entry.plan) != task:
            return None, None
        return entry, entry.plan

    def _follow(self, entry: ReservationInfo, plan: MigrationPlan, now: float) -> None:
        """Begin, hand on or end a plan after a change of it or of its reservation."""
        if not entry.may_move:
            self._give_up(entry, "spec.mayMove does not ask for it any more", now)
        elif plan.under_way:
            self._go_on(entry, plan, now)
        elif approved(entry.reservation, plan) and migration_is_stored(entry.reservation, plan):
            self._look(entry, now)
        elif entry.key not in self._awaited:
            self._await(entry.key, self._plan_seconds, now)

    def _look(self, entry: ReservationInfo, now: float) -> None:
        """Search a plan for a reservation, or check the one that it has."""
        self._await(entry.key, self._plan_seconds, now)
        plan = entry.plan
        if plan is not None and plan.under_way:
            self._go_on(entry, plan, now)
            return
        try:
            found, why = self._found(entry, plan, now)
        except PluginError as error:
            found, why = None, str(error)
        if found is None:
            self._have_none(entry, why, now)
        elif plan is None or found.token != plan.token:
            self._ledger.nominations.plan_moves(
                entry, found, Event.PLAN_MOVES, f"capacity would be freed by moving {found.text}", now
            )
        elif approved(entry.reservation, plan) and migration_is_stored(entry.reservation, plan):
            self._ledger.nominations.plan_moves(
                entry, found.begun(now), Event.MOVE, f"moving {found.text}", now
            )
        elif found != plan:
            self._ledger.nominations.plan_moves(entry, found, None, "", now)

    def _found(
        self, entry: ReservationInfo, plan: MigrationPlan | None, now: float
    ) -> tuple[MigrationPlan | None, str]:
        if problem := self._ledger.quotas.problem(entry):
            return None, problem
        if not entry.moves_left:
            return None, _NONE_LEFT
        settled = list(self._settled())
        known = self._planner.renew(entry, plan, now, settled) if plan is not None else None
        return known or self._planner.find(entry, now, settled), _NONE_FOUND

    def _have_none(self, entry: ReservationInfo, why: str, now: float) -> None:
        if entry.plan is not None:
            self._ledger.nominations.plan_moves(entry, None, Event.DROP_MOVES, why, now)
        elif why in (_NONE_FOUND, _NONE_LEFT) and entry.move_problem.startswith(_GIVEN_UP):
            return  # the failure says more, and `status.moved` how many have gone
        elif entry.move_problem != why:
            self._ledger.nominations.plan_moves(entry, None, None, why, now)

    def _go_on(self, entry: ReservationInfo, plan: MigrationPlan, now: float) -> None:
        """Hand on a plan under way once that is stored, or give it up."""
        if why := self._obstacle(entry, plan, now):
            self._give_up(entry, why, now)
            return
        self._begun[entry.uid] = _task(entry, plan)
        if migration_is_stored(entry.reservation, plan):
            self._tasks.append(_task(entry, plan))
        self._ledger.nominations.plan_moves(entry, plan, None, "", now)  # its capacity is kept in any case
        if entry.key not in self._awaited:
            self._await(entry.key, self._plan_seconds, now)

    def _obstacle(self, entry: ReservationInfo, plan: MigrationPlan, now: float) -> str:
        """Return why a plan under way can't go on, or an empty text."""
        if not entry.may_move or not approved(entry.reservation, plan):
            return "it is not approved any more"
        if problem := self._ledger.quotas.problem(entry):
            return problem
        if not all(self._planner.movable(move.uid, entry) for move in plan.moves):
            return "a pod of it may not be moved any more"
        try:
            helps = self._planner.still_helps(entry, plan, now)
        except PluginError as error:
            return str(error)
        return "" if helps else unhelpful_text(plan.node)

    def _give_up(self, entry: ReservationInfo, why: str, now: float) -> None:
        self._begun.pop(entry.uid, None)
        self._ledger.nominations.plan_moves(entry, None, Event.DROP_MOVES, f"{_GIVEN_UP}: {why}", now)

    def _settled(self) -> Iterator[Destination]:
        """Return the pods that leave for other nodes by other plans."""
        for uid, task in list(self._begun.items()):
            _, plan = self._plan_of(task)
            if plan is None:
                del self._begun[uid]
                continue
            for move in plan.moves:
                placed = self._cache.get(move.uid)
                if placed is not None and placed.node_name == plan.node:
                    yield placed.pod, move.to

    def _await(self, key: Key, seconds: float, now: float) -> None:
        self._looks.set(key, self._steady.at(now) + seconds)
        self._awaited.add(key)


def _task(entry: ReservationInfo, plan: MigrationPlan) -> MigrationTask:
    return MigrationTask(entry.key, entry.uid, plan.token, plan.begun_at)


def unhelpful_text(node_name: str) -> str:
    """Say that a plan does not help any more."""
    return f"moving its pods would no longer free enough capacity on {node_name}"
