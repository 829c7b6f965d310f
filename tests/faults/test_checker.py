from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from faults.checker import Checker
from faults.history import Change, Json
from faults.proxy import Passed
from faults.world import Circumstances
from tidelock.model.instants import format_instant

START = 1_800_000_000.0


class HistoryBuilder:
    """Writes a history. Each event is one version and one second later than the last."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.clock = START

    def node(self, cpu: str = "4", uid: str = "n") -> None:
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"cpu": cpu}, "conditions": ready}
        self.tell("nodes", {"metadata": {"name": "a", "uid": uid}, "spec": {}, "status": status})

    def pod(self, name: str, node: str = "a", cpu: str = "3", uid: str = "") -> None:
        container = {"resources": {"requests": {"cpu": cpu}}}
        meta = {"name": name, "uid": uid or name, "labels": {"app": name}}
        spec = {"nodeName": node, "containers": [container]}
        self.tell("pods", {"metadata": meta, "spec": spec, "status": {}})

    def bound(self, name: str, cpu: str = "3", uid: str = "") -> None:
        self.pod(name, "", cpu, uid)
        self.pod(name, "a", cpu, uid)

    def reservation(
        self,
        name: str = "lock",
        reason: str = "Admitted",
        *,
        owner: str = "web",
        uid: str = "",
        also: Mapping[str, Any] | None = None,
        **status: Any,
    ) -> None:
        """Add a reservation with the phase of its reason. `also` has further fields of its spec.

        Fields of its status that are None are left out.
        """
        active = {"type": "Active", "status": str(reason == "Admitted"), "reason": reason}
        told = {
            "phase": {"Admitted": "Active"}.get(reason, reason),
            "nodeName": "a",
            "nodeUID": "n",
            "resources": {"cpu": "3"},
            "activatedAt": format_instant(START),
            "expiresAt": format_instant(START + 600),
            "conditions": [active],
        }
        spec = {"resources": {"cpu": "3"}, "owners": [{"pod": {"name": owner}}], "nodeName": "a"}
        spec |= also or {}
        self.tell(
            "reservations",
            {
                "metadata": {"name": name, "uid": uid or name, "generation": 1},
                "spec": spec,
                "status": {field: value for field, value in (told | status).items() if value is not None},
            },
        )

    def gone(self) -> None:
        """Remove the object of the last event."""
        last = self.changes[-1]
        self.tell(last.kind, last.state, gone=True)

    def tell(self, kind: str, state: Json, *, gone: bool = False) -> None:
        self.clock += 1
        version = len(self.changes) + 1
        self.changes.append(Change(version, kind, gone, state, self.clock, self.clock))

    def judged(self, **circumstances: Any) -> list[str]:
        return Checker(Circumstances(**circumstances)).replay(self.changes)

    def judged_at_rest(self) -> list[str]:
        return Checker(Circumstances()).check_rest(self.changes, self.clock)


@pytest.fixture
def history() -> HistoryBuilder:
    made = HistoryBuilder()
    made.node()
    return made


def _only(found: Sequence[str], *words: str) -> bool:
    return len(found) == 1 and all(word in found[0] for word in words)


def test_the_regular_life_of_a_reservation_has_no_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.bound("web")
    history.reservation(reason="Consumed", boundPod={"name": "web", "uid": "web"})
    history.gone()
    assert history.judged() == history.judged_at_rest() == []


def test_two_reservations_in_the_capacity_of_one_are_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.reservation("other", owner="db")
    assert _only(history.judged(), "I1", "'cpu': Decimal('2')", "other")


def test_another_pod_in_reserved_capacity_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.bound("db")
    assert _only(history.judged(), "I1", "pod db")


def test_two_pods_in_the_capacity_of_one_are_a_violation(history: HistoryBuilder) -> None:
    history.bound("web")
    history.bound("db")
    assert _only(history.judged(), "I1", "pod db")


def test_an_expired_reservation_holds_no_capacity_even_if_its_status_is_active(
    history: HistoryBuilder,
) -> None:
    history.reservation()
    history.clock = START + 601
    history.bound("db")
    assert history.judged() == []
    assert any("I3: lock is Active after its expiry" in each for each in history.judged_at_rest())


def test_a_reservation_has_expired_once_the_clock_has_shown_its_end_even_if_set_back_later(
    history: HistoryBuilder,
) -> None:
    history.reservation()
    history.bound("db")
    assert history.judged(peaks=[(history.clock, START + 601)]) == []
    assert history.judged(peaks=[(START - 100, START + 601)]), (
        "the clock jumped before the reservation existed"
    )


def test_a_reservation_keeps_its_capacity_until_its_owner_is_bound(history: HistoryBuilder) -> None:
    history.reservation()
    history.bound("db")
    under_way = Passed("bind", "web", start=history.clock - 1)
    assert history.judged(asked=[under_way])


def test_a_reservation_that_was_smaller_for_a_moment_may_have_lost_capacity(history: HistoryBuilder) -> None:
    history.reservation()
    history.reservation(also={"resources": {"cpu": "1"}})
    history.reservation(also={"resources": {"cpu": "3"}})
    history.bound("db")
    assert history.judged() == []
    history.reservation(also={"resources": {"cpu": "3"}}, resources={"cpu": "2"})
    assert history.judged(), "its status reports 2 cores"


def test_a_reusable_reservation_in_use_takes_no_capacity_beside_a_foreign_pod(
    history: HistoryBuilder,
) -> None:
    history.bound("web")
    history.reservation(also={"reuse": "Always"}, boundPod={"name": "web", "uid": "web"})
    history.pod("static", "a", cpu="2")
    assert not any("overcommitted" in each for each in history.judged_at_rest())
    history.reservation("second")
    assert any("overcommitted at rest" in each for each in history.judged_at_rest())


def test_a_node_with_a_pod_of_another_binder_is_checked_only_at_rest(history: HistoryBuilder) -> None:
    history.reservation()
    history.pod("static", "a")
    assert history.judged() == []
    assert _only(history.judged_at_rest(), "I1", "overcommitted at rest")


def test_a_node_that_shrinks_is_checked_only_at_rest(history: HistoryBuilder) -> None:
    history.reservation()
    history.node("2")
    assert history.judged() == []
    history.reservation(reason="Overcommitted", phase="Pending")
    assert history.judged_at_rest() == []


def test_an_end_of_active_without_a_known_reason_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.reservation(reason="Overcommitted", phase="Pending")
    assert _only(history.judged(), "I1", "no reason")


def test_an_end_before_the_expiry_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.reservation(reason="Expired")
    assert _only(history.judged(), "I1", "no reason")


def test_a_deletion_of_an_active_reservation_by_the_operator_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.gone()
    assert _only(history.judged(), "I2", "deleted by the operator")
    assert history.judged(deleted={"lock"}) == []


def test_a_reservation_consumed_by_a_former_pod_of_the_same_name_is_a_violation(
    history: HistoryBuilder,
) -> None:
    history.bound("web", uid="old")
    history.gone()
    history.reservation()
    history.reservation(reason="Consumed", boundPod={"name": "web", "uid": "old"})
    assert any("I2" in each and "not been bound" in each for each in history.judged())


def test_a_reservation_consumed_twice_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    for uid in ("one", "two"):
        history.bound("web", cpu="1", uid=uid)
        history.reservation(reason="Consumed", boundPod={"name": "web", "uid": uid})
        history.tell("pods", history.changes[-2].state, gone=True)
    assert any("consumed by" in each and "and then by" in each for each in history.judged())


def test_a_return_from_expired_to_active_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.clock = START + 601
    history.reservation(reason="Expired")
    history.reservation()
    assert any("I2" in each and "from Expired to Active" in each for each in history.judged())


def test_a_second_activation_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.reservation(activatedAt=format_instant(START + 5))
    assert any("I2" in each and "was given at" in each for each in history.judged())


def test_a_reservation_active_beside_its_bound_owner_at_rest_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.bound("web", cpu="1")
    assert any("I3: lock is Active beside its bound owner" in each for each in history.judged_at_rest())


def test_a_reservation_on_a_node_that_was_replaced_is_a_violation(history: HistoryBuilder) -> None:
    history.reservation()
    history.tell("nodes", history.changes[0].state, gone=True)
    history.node(uid="another")
    assert _only(history.judged_at_rest(), "I1", "another or gone")
