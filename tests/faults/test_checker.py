from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from faults.checker import Checker
from faults.history import Happening, Json
from faults.proxy import Passed
from faults.world import Circumstances
from tidelock.model.instants import format_instant

START = 1_800_000_000.0


class Tale:
    """Writes a history. Each event is one version and one second later than the last."""

    def __init__(self) -> None:
        self.happenings: list[Happening] = []
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
        """Tell of a lock that has the phase of its reason; `also` is what its spec says beside.

        What is None in its status is not told.
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
        """Have the object go of which was told last."""
        last = self.happenings[-1]
        self.tell(last.kind, last.state, gone=True)

    def tell(self, kind: str, state: Json, *, gone: bool = False) -> None:
        self.clock += 1
        version = len(self.happenings) + 1
        self.happenings.append(Happening(version, kind, gone, state, self.clock, self.clock))

    def judged(self, **circumstances: Any) -> list[str]:
        return Checker(Circumstances(**circumstances)).play(self.happenings)

    def judged_at_rest(self) -> list[str]:
        return Checker(Circumstances()).check_rest(self.happenings, self.clock)


@pytest.fixture
def tale() -> Tale:
    made = Tale()
    made.node()
    return made


def _only(found: Sequence[str], *words: str) -> bool:
    return len(found) == 1 and all(word in found[0] for word in words)


def test_the_life_of_a_lock_is_as_promised(tale: Tale) -> None:
    tale.reservation()
    tale.bound("web")
    tale.reservation(reason="Consumed", boundPod={"name": "web", "uid": "web"})
    tale.gone()
    assert tale.judged() == tale.judged_at_rest() == []


def test_two_locks_in_the_room_of_one(tale: Tale) -> None:
    tale.reservation()
    tale.reservation("other", owner="db")
    assert _only(tale.judged(), "I1", "'cpu': Decimal('2')", "other")


def test_a_pod_in_locked_room(tale: Tale) -> None:
    tale.reservation()
    tale.bound("db")
    assert _only(tale.judged(), "I1", "pod db")


def test_pods_in_the_room_of_one(tale: Tale) -> None:
    tale.bound("web")
    tale.bound("db")
    assert _only(tale.judged(), "I1", "pod db")


def test_an_expired_lock_holds_nothing_whether_or_not_its_status_says_so(tale: Tale) -> None:
    tale.reservation()
    tale.clock = START + 601
    tale.bound("db")
    assert tale.judged() == []
    assert any("I3: lock is Active after its expiry" in each for each in tale.judged_at_rest())


def test_a_lock_has_expired_when_the_clock_has_shown_its_end_even_if_it_was_set_back(tale: Tale) -> None:
    tale.reservation()
    tale.bound("db")
    assert tale.judged(peaks=[(tale.clock, START + 601)]) == []
    assert tale.judged(peaks=[(START - 100, START + 601)]), "that was before the lock"


def test_a_lock_has_its_room_until_its_owner_is_bound(tale: Tale) -> None:
    tale.reservation()
    tale.bound("db")
    under_way = Passed("bind", "web", start=tale.clock - 1)
    assert tale.judged(asked=[under_way])


def test_a_lock_that_was_smaller_for_a_moment_has_given_room_on(tale: Tale) -> None:
    tale.reservation()
    tale.reservation(also={"resources": {"cpu": "1"}})
    tale.reservation(also={"resources": {"cpu": "3"}})
    tale.bound("db")
    assert tale.judged() == []
    tale.reservation(also={"resources": {"cpu": "3"}}, resources={"cpu": "2"})
    assert tale.judged(), "that is what it has"


def test_a_lock_for_reuse_in_use_takes_nothing_beside_a_stranger(tale: Tale) -> None:
    tale.bound("web")
    tale.reservation(also={"reuse": "Always"}, boundPod={"name": "web", "uid": "web"})
    tale.pod("static", "a", cpu="2")
    assert not any("overcommitted" in each for each in tale.judged_at_rest())
    tale.reservation("second")
    assert any("overcommitted at rest" in each for each in tale.judged_at_rest())


def test_a_node_that_others_disturb_is_judged_at_rest(tale: Tale) -> None:
    tale.reservation()
    tale.pod("static", "a")
    assert tale.judged() == []
    assert _only(tale.judged_at_rest(), "I1", "overcommitted at rest")


def test_a_node_that_shrinks_is_judged_at_rest(tale: Tale) -> None:
    tale.reservation()
    tale.node("2")
    assert tale.judged() == []
    tale.reservation(reason="Overcommitted", phase="Pending")
    assert tale.judged_at_rest() == []


def test_active_ends_without_a_reason(tale: Tale) -> None:
    tale.reservation()
    tale.reservation(reason="Overcommitted", phase="Pending")
    assert _only(tale.judged(), "I1", "no reason")


def test_active_ends_before_its_expiry(tale: Tale) -> None:
    tale.reservation()
    tale.reservation(reason="Expired")
    assert _only(tale.judged(), "I1", "no reason")


def test_the_operator_deletes_a_lock_in_use(tale: Tale) -> None:
    tale.reservation()
    tale.gone()
    assert _only(tale.judged(), "I2", "deleted by the operator")
    assert tale.judged(deleted={"lock"}) == []


def test_a_lock_is_consumed_by_a_namesake_that_was_gone_before(tale: Tale) -> None:
    tale.bound("web", uid="old")
    tale.gone()
    tale.reservation()
    tale.reservation(reason="Consumed", boundPod={"name": "web", "uid": "old"})
    assert any("I2" in each and "not been bound" in each for each in tale.judged())


def test_a_lock_is_consumed_twice(tale: Tale) -> None:
    tale.reservation()
    for uid in ("one", "two"):
        tale.bound("web", cpu="1", uid=uid)
        tale.reservation(reason="Consumed", boundPod={"name": "web", "uid": uid})
        tale.tell("pods", tale.happenings[-2].state, gone=True)
    assert any("consumed by" in each and "and then by" in each for each in tale.judged())


def test_an_end_that_is_none(tale: Tale) -> None:
    tale.reservation()
    tale.clock = START + 601
    tale.reservation(reason="Expired")
    tale.reservation()
    assert any("I2" in each and "from Expired to Active" in each for each in tale.judged())


def test_a_lock_is_given_twice(tale: Tale) -> None:
    tale.reservation()
    tale.reservation(activatedAt=format_instant(START + 5))
    assert any("I2" in each and "was given at" in each for each in tale.judged())


def test_a_lock_beside_its_bound_owner(tale: Tale) -> None:
    tale.reservation()
    tale.bound("web", cpu="1")
    assert any("I3: lock is Active beside its bound owner" in each for each in tale.judged_at_rest())


def test_a_lock_on_a_node_that_was_replaced(tale: Tale) -> None:
    tale.reservation()
    tale.tell("nodes", tale.happenings[0].state, gone=True)
    tale.node(uid="another")
    assert _only(tale.judged_at_rest(), "I1", "another or gone")
