"""What must hold of locks for which pods may be moved."""

from collections import Counter

from property.process import Process
from tidelock.ledger.lifecycle.migration import token_of
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.migration import MayMove
from tidelock.model.api.reservation import Phase


class MoveObserver:
    """Counts by itself who was evicted for which lock."""

    def __init__(self) -> None:
        self._evicted: Counter[str] = Counter()
        self._gone: set[tuple[str, str]] = set()

    def check(self, process: Process) -> None:
        """Nobody is evicted but as a stored plan says that was approved, and not more than may be."""
        for task, victim in process.moved:
            versions = process.api.reservations.versions[task.uid]
            plans = [version.status["plan"] for version in versions if "plan" in version.status]
            begun = [plan for plan in plans if plan["token"] == task.token and "begunAt" in plan]
            assert begun, f"{victim.key} was evicted by a plan that was not stored to be under way"
            nominated = process.nominator.node_of(task.uid)
            assert nominated == begun[-1]["nodeName"], f"{victim.key} was evicted for room of others"
            uids = {each["uid"] for each in begun[-1]["evictions"]}
            assert victim.uid in uids, f"{victim.key} was evicted, and is in no plan of {task.reservation}"
            asks = _asks(process, task.uid)
            approved = any(each.automatically or each.approve == task.token for each in asks)
            assert approved, f"{victim.key} was evicted, which nobody has approved"
            if (task.uid, victim.uid) not in self._gone:  # asked again, as the first answer was lost
                self._gone.add((task.uid, victim.uid))
                self._evicted[task.uid] += 1
            assert self._evicted[task.uid] <= max(each.max_pods for each in asks), (
                f"too many for {task.reservation}"
            )
        for entry in process.ledger.entries.values():
            _check_plan(process, entry)


def check_stored_moves(process: Process) -> None:
    """The stored objects tell of plans while their locks wait, and of no others."""
    for reservation in process.api.reservations.decoded.values():
        entry = process.ledger.entries[reservation.key]
        told = {each["type"] for each in reservation.status["conditions"]}
        assert ("MovePlanned" in told) == entry.may_move, reservation.key
        plan = reservation.status.get("plan")
        assert plan is None or entry.may_move, f"{reservation.key} has a plan, and asks for none"
        if plan is not None:
            uids = [each["uid"] for each in plan["evictions"]]
            assert plan["begunAt"] if "begunAt" in plan else len(uids) <= entry.moves_left


def _check_plan(process: Process, entry: ReservationInfo) -> None:
    plan = entry.plan
    nominated = process.nominator.node_of(entry.uid)
    if plan is None:
        return
    assert entry.phase is Phase.PENDING, f"{entry.key} is {entry.phase} with a plan"
    assert not entry.reserved, f"{entry.key} has room already"
    # Whoever is above the lock may have taken the room, and it may be over its quota by now.
    assert nominated in (plan.node, ""), f"the room for {entry.key} is set aside on {nominated}"
    assert plan.under_way or not nominated, f"{entry.key} is nominated for a plan that is only shown"
    row = process.columns.row_of.get(plan.node)
    if row is not None and not plan.under_way:
        uids = {process.columns.nodes[row].meta.uid, *_uids_of(process, plan.node)}
        uid = entry.uid
        assert plan.token in {token_of(uid, each, [m.uid for m in plan.moves]) for each in uids}, entry.key


def _uids_of(process: Process, node_name: str) -> set[str]:
    """Give the uids of all nodes that had a name."""
    versions = process.api.nodes.versions
    return {uid for uid, each in versions.items() if each[0].name == node_name}


def _asks(process: Process, uid: str) -> list[MayMove]:
    specs = (version.spec for version in process.api.reservations.versions[uid])
    return [spec.may_move for spec in specs if spec is not None and spec.may_move is not None]
