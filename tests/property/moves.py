"""Invariants of reservations for which pods may be migrated."""

from collections import Counter

from property.process import Process
from tidelock.ledger.lifecycle.migration import token_of
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.migration import MayMove
from tidelock.model.api.reservation import Phase


class MoveObserver:
    """An observer with its own count of the pods that were evicted for each reservation."""

    def __init__(self) -> None:
        self._evicted: Counter[str] = Counter()
        self._gone: set[tuple[str, str]] = set()

    def check(self, process: Process) -> None:
        """Check that pods are evicted only by a stored and approved plan, and no more than allowed."""
        for task, victim in process.moved:
            versions = process.api.reservations.versions[task.uid]
            plans = [version.status["plan"] for version in versions if "plan" in version.status]
            begun = [plan for plan in plans if plan["token"] == task.token and "begunAt" in plan]
            assert begun, f"{victim.key} was evicted by a plan that was not stored as under way"
            nominated = process.nominator.node_of(task.uid)
            assert nominated == begun[-1]["nodeName"], f"{victim.key} was evicted on a node that is not kept"
            uids = {each["uid"] for each in begun[-1]["evictions"]}
            assert victim.uid in uids, f"{victim.key} was evicted, and is in no plan of {task.reservation}"
            asks = _asks(process, task.uid)
            approved = any(each.automatically or each.approve == task.token for each in asks)
            assert approved, f"{victim.key} was evicted without an approval"
            if (task.uid, victim.uid) not in self._gone:  # otherwise the first answer was lost
                self._gone.add((task.uid, victim.uid))
                self._evicted[task.uid] += 1
            assert self._evicted[task.uid] <= max(each.max_pods for each in asks), (
                f"too many evictions for {task.reservation}"
            )
        for entry in process.ledger.entries.values():
            _check_plan(process, entry)


def check_stored_moves(process: Process) -> None:
    """Check that the stored objects show migration plans only while their reservations wait."""
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
    assert not entry.reserved, f"{entry.key} has capacity already"
    # A higher priority may have taken the capacity, and the reservation may be over its quota by now.
    assert nominated in (plan.node, ""), f"the capacity for {entry.key} is kept on {nominated}"
    assert plan.under_way or not nominated, f"{entry.key} is nominated for a plan that is not under way"
    row = process.columns.row_of.get(plan.node)
    if row is not None and not plan.under_way:
        uids = {process.columns.nodes[row].meta.uid, *_uids_of(process, plan.node)}
        uid = entry.uid
        assert plan.token in {token_of(uid, each, [m.uid for m in plan.moves]) for each in uids}, entry.key


def _uids_of(process: Process, node_name: str) -> set[str]:
    """Return the UIDs of all nodes that had a name."""
    versions = process.api.nodes.versions
    return {uid for uid, each in versions.items() if each[0].name == node_name}


def _asks(process: Process, uid: str) -> list[MayMove]:
    specs = (version.spec for version in process.api.reservations.versions[uid])
    return [spec.may_move for spec in specs if spec is not None and spec.may_move is not None]
