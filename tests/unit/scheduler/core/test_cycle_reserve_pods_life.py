"""When a reservation has a reserve pod, and what ends with it."""

import pytest

from builders import NOW, Json, node, pod
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.pods import BORROWS, REQUIRE_RESERVATION, Pod, assigned_to
from tidelock.plugins.inter_pod_affinity import EXISTING_ANTI_AFFINITY
from tidelock.scheduler.core.explain import explain_pod
from unit.scheduler.gang import Gang
from unit.scheduler.machinery import Core
from unit.scheduler.reserve_pods import (
    HOSTNAME,
    WEB,
    ZONE,
    decide,
    far,
    hosts,
    phase,
    port,
    spread,
    template,
    term,
    zoned,
)


def test_once_the_owner_has_come_only_the_owner_counts() -> None:
    core = Core(*hosts("node-a", "node-b"))
    core.reservation(owner="db-0", nodeName="node-a", **template({"app": "db"}, containers=port(8080)))
    core.step()
    assert [each.key.name for each in core.cache.reserve_pods.on("node-a")] == ["lock"]

    owner = pod("db-0", labels={"app": "db"}, containers=port(8080))
    assert decide(core, owner) == "node-a"
    assert not core.cache.reserve_pods
    core.event_handlers.pods.remove(assigned_to(owner, "node-a"))
    assert decide(core, pod("thief", containers=port(8080))) == "node-a"


def test_a_failed_binding_of_the_owner_restores_the_reserve_pod() -> None:
    core = Core(*hosts("node-a"))
    core.reservation(owner="db-0", **template(containers=port(8080)))
    core.step()
    core.add(pod("db-0", containers=port(8080)))
    assumed = core.place()
    assert not core.cache.reserve_pods

    core.decider.binding_failed(assumed, core.clock.now())

    assert len(list(core.cache.reserve_pods.on("node-a"))) == 1
    assert "free ports" in decide(core, pod("thief", containers=port(8080)))


@pytest.mark.parametrize("end", ["expires", "is deleted", "is preempted", "loses its node"])
def test_a_reservation_that_ends_leaves_no_reserve_pod(end: str) -> None:
    core = Core(*hosts("node-a"))
    entry = core.reservation(owner="db-0", **template(containers=port(8080)))
    core.step()
    core.add(pod("thief", containers=port(8080)))
    core.refuse()

    if end == "expires":
        core.clock.advance(601)
    elif end == "is deleted":
        core.event_handlers.reservations.remove(entry.reservation)
    elif end == "is preempted":
        core.ledger.placement.preempt(entry, "somebody", core.clock.now())
    else:
        core.event_handlers.nodes.remove(core.decider.columns.nodes[0])
    assert end == "expires" or not core.cache.reserve_pods
    core.clock.advance(10)
    if end in ("expires", "is deleted"):
        assert core.place().pod.meta.name == "thief"


def test_a_pod_that_waits_for_the_host_port_of_a_reservation_is_woken() -> None:
    """Regression: the queue got no event when a reserve pod was removed, so the pod waited for minutes."""
    core = Core(*hosts("node-a"))
    entry = core.reservation(owner="db-0", **template(containers=port(8080)))
    core.step()
    core.add(pod("thief", containers=port(8080)))
    core.refuse()

    core.event_handlers.reservations.remove(entry.reservation)
    core.clock.advance(10)

    assert core.place().node_name == "node-a"


def test_a_reservation_that_moves_or_grows_is_not_blocked_by_its_own_reserve_pod() -> None:
    core = Core(*hosts("node-a", "node-b"))
    shape = template(WEB, affinity=far(term(WEB)), containers=port(8080))
    entry = core.reservation(**shape)
    core.step()
    assert entry.node == "node-a"

    larger = template(WEB, affinity=far(term(WEB)), containers=port(8080))
    larger["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    core.reservation(generation=2, version=2, **larger)
    core.step()
    assert (entry.phase, entry.node, entry.held["cpu"]) == (Phase.ACTIVE, "node-a", 2000)

    core.event_handlers.nodes.upsert(
        None, node("node-a", cpu="64", labels={HOSTNAME: "node-a"}, cordoned=True)
    )
    core.clock.advance(301)
    core.step()
    assert (entry.phase, entry.node) == (Phase.ACTIVE, "node-b")
    assert not core.cache.reserve_pods.on("node-a")


def test_a_reservation_without_a_template_has_no_reserve_pod() -> None:
    core = Core(*hosts("node-a"))
    core.add(pod("loner", node_name="node-a", affinity=far(term(WEB))))
    entry = core.reservation(owners=[{"selector": {"matchLabels": WEB}}])
    core.step()

    assert entry.phase is Phase.ACTIVE
    assert not core.cache.reserve_pods


def test_annotations_of_a_template_do_not_apply_to_the_reservation() -> None:
    """The template of a pod that requires its reservation has the annotation.

    The reservation requires none.
    """
    core = Core(*hosts("node-a"))
    told = {REQUIRE_RESERVATION: "true", BORROWS: "true", "tidelock.dev/run-seconds": "5"}
    entry = core.reservation(**template(WEB, annotations=told))
    core.step()

    assert entry.phase is Phase.ACTIVE
    assert entry.reservation.pod is not None
    assert entry.reservation.pod.meta.annotations == {}


def test_a_reusable_reservation_has_a_reserve_pod_while_no_owner_uses_it() -> None:
    core = Core(*hosts("node-a"))
    shape = template({"app": "db"}, containers=port(8080))
    core.reservation(owner="db-0", reuse="Always", **shape)
    core.step()
    for _ in range(2):
        assert core.cache.reserve_pods.on("node-a")
        owner = pod("db-0", labels={"app": "db"}, containers=port(8080))
        assert decide(core, owner) == "node-a"
        assert not core.cache.reserve_pods
        core.event_handlers.pods.remove(assigned_to(owner, "node-a"))

    assert "free ports" in decide(core, pod("thief", containers=port(8080)))


def test_borrowers_count_for_anti_affinity_like_other_pods() -> None:
    core = Core(*hosts("node-a"))
    core.reservation(owner="db-0", borrowable=True, **template({"app": "db"}, affinity=far(term(WEB))))
    core.step()

    def borrower(name: str, labels: Json) -> Pod:
        return pod(name, requests={"cpu": "64"}, labels=labels, annotations={BORROWS: "true"})

    assert EXISTING_ANTI_AFFINITY in decide(core, borrower("web", WEB))
    assert decide(core, borrower("batch", {})) == "node-a"
    assert core.cache.reserve_pods.on("node-a")


def test_a_window_has_a_reserve_pod_from_its_start_on() -> None:
    core = Core(*hosts("node-a"))
    begins = format_instant(NOW + 100)
    window = core.reservation(owner="db-0", startAt=begins, **template({"app": "db"}))
    core.step()
    assert phase(window) is Phase.PLANNED
    assert not core.cache.reserve_pods

    core.clock.advance(101)
    core.step()
    assert phase(window) is Phase.ACTIVE
    assert core.cache.reserve_pods.on("node-a")


def test_a_gang_is_placed_as_its_pods_would_be() -> None:
    """Regression: members with anti-affinity to each other were all held on one node."""
    core = Core(*hosts("node-a", "node-b", "node-c"))
    gang = Gang(core, size=3).come(**template(WEB, affinity=far(term(WEB))))
    core.step()

    assert sorted(gang[n].node for n in range(3)) == ["node-a", "node-b", "node-c"]


def test_a_gang_that_does_not_fit_leaves_no_reserve_pods() -> None:
    core = Core(*hosts("node-a", "node-b"))
    gang = Gang(core, size=3).come(**template(WEB, affinity=far(term(WEB))))
    core.step()

    assert {gang[n].phase for n in range(3)} == {Phase.PENDING}
    assert not core.cache.reserve_pods


def test_preemption_frees_the_host_port_of_a_reservation_of_lower_priority() -> None:
    core = Core(*hosts("node-a"))
    entry = core.reservation(owner="db-0", **template(containers=port(8080)))
    core.step()
    core.add(pod("urgent", containers=port(8080), priority=10))
    core.refuse()
    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.PREEMPTED)

    core.clock.advance(10)
    assert core.place().pod.meta.name == "urgent"


def test_a_nominated_owner_counts_once() -> None:
    """Regression: its reserve pod counted beside it, so zone a seemed to have one pod too many."""
    core = Core(zoned("node-a", "a"), zoned("node-b", "b"))
    core.reservation(owner="web-0", nodeName="node-a", **template(WEB))
    core.add(pod("web-1", node_name="node-b", labels=WEB))
    core.step()
    core.cache.nominator.nominate(pod("web-0", labels=WEB, priority=10), "node-a")

    constraints = spread(WEB, nodeAffinityPolicy="Ignore")
    waiting = pod("web-2", labels=WEB, nodeSelector={ZONE: "a"}, topologySpreadConstraints=constraints)
    assert decide(core, waiting) == "node-a"


def test_a_quote_knows_when_the_host_port_of_a_reservation_comes_free() -> None:
    core = Core(*hosts("node-a"))
    core.reservation(owner="db-0", **template(containers=port(8080)))
    core.step()

    asked = core.reservation("asked", owner="db-1", **template(containers=port(8080))).reservation.pod
    assert asked is not None
    told = core.decider.quote(asked, core.clock.now())

    assert (told.feasible, told.fits_at) == (False, NOW + 600)


def test_explaining_an_owner_leaves_out_its_own_reserve_pod() -> None:
    core = Core(*hosts("node-a"))
    core.reservation(
        owner="db-0", **template({"app": "db"}, containers=port(8080), affinity=far(term({"app": "db"})))
    )
    core.step()
    spec = {"containers": port(8080), "affinity": far(term({"app": "db"}))}

    def objections(name: str) -> list[str]:
        asked = pod(name, labels={"app": "db"}, **spec)
        (told,) = explain_pod(core.decider.pipeline, core.decider.profile, asked, NOW)
        return [each.plugin for each in told.rejections]

    assert objections("db-0") == []
    assert objections("db-1") == ["NodePorts", "InterPodAffinity"]


def test_reserve_pods_of_other_nodes_count_correctly_after_a_node_is_removed() -> None:
    """Reserve pods are counted by row, and rows change when a node is removed."""
    core = Core(*hosts("node-a", "node-b", "node-c"))
    reservations = [
        core.reservation(name, owner=name, nodeName=name, **template(containers=port(8080)))
        for name in ("node-a", "node-c")
    ]
    core.step()
    core.event_handlers.nodes.remove(core.decider.columns.nodes[0])
    core.step()

    assert [entry.phase for entry in reservations] == [Phase.LOST, Phase.ACTIVE]
    assert decide(core, pod("first", containers=port(8080))) == "node-b"
    assert "free ports" in decide(core, pod("second", containers=port(8080)))


def test_an_edited_template_counts_at_once() -> None:
    core = Core(*hosts("node-a"))
    core.reservation(owner="db-0", **template(containers=port(8080)))
    core.step()
    core.reservation(owner="db-0", generation=2, version=2, **template(containers=port(9090)))
    core.step()

    assert "free ports" in decide(core, pod("thief", containers=port(9090)))
    assert decide(core, pod("other", containers=port(8080))) == "node-a"
