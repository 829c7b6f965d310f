"""Reservations with a template are placed like their pods, and have a reserve pod until these pods come."""

from typing import Any

import pytest

from builders import NOW, Json, node, pod
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.model.instants import format_instant
from tidelock.model.pods import BORROWS, REQUIRE_RESERVATION, Pod, assigned_to
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.explain import explain_pod
from tidelock.scheduler.core.outcomes import Unschedulable
from unit.scheduler.gang import Gang
from unit.scheduler.machinery import Core

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = {"app": "web"}


def term(labels: Json, key: str = HOSTNAME, **more: Any) -> Json:
    return {"labelSelector": {"matchLabels": labels}, "topologyKey": key, **more}


def near(*terms: Json) -> Json:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def far(*terms: Json) -> Json:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def spread(labels: Json, key: str = ZONE, **more: Any) -> list[Json]:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return [constraint | {"labelSelector": {"matchLabels": labels}} | more]


def wish(labels: Json, key: str = ZONE, **more: Any) -> list[Json]:
    return spread(labels, key, whenUnsatisfiable="ScheduleAnyway", **more)


def port(number: int) -> list[Json]:
    requests = {"requests": {"cpu": "1"}}
    return [{"name": "main", "ports": [{"containerPort": 80, "hostPort": number}], "resources": requests}]


def template(labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    """Return the fields of a reservation of one CPU for a pod with these labels."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"labels": labels or {}, "annotations": annotations or {}}
    return {
        "resources": None,
        "template": {"metadata": metadata, "spec": {"containers": [container], **spec}},
    }


def zoned(name: str, zone: str, **fields: Any) -> Any:
    return node(name, labels={ZONE: zone, HOSTNAME: name}, **fields)


def hosts(*names: str) -> list[Any]:
    """Build nodes. The first is the largest by far, so it is preferred."""
    sizes = ["64", *["4"] * len(names)]
    return [node(name, cpu=cpu, labels={HOSTNAME: name}) for name, cpu in zip(names, sizes, strict=False)]


def phase(entry: ReservationInfo) -> Phase:
    """Return the present phase, as a type checker would keep the attribute narrowed to an earlier value."""
    return entry.phase


def decide(core: Core, waiting: Pod) -> str:
    """Decide on a pod. Return the name of its node, or the message of the refusal."""
    core.event_handlers.pods.upsert(None, waiting)
    outcome = core.step()
    while outcome is not None and not _about(outcome, waiting):
        outcome = core.step()
    assert outcome is not None
    if isinstance(outcome, AssumedPod):
        core.decider.bound(outcome, core.clock.now())
        core.event_handlers.pods.upsert(waiting, assigned_to(waiting, outcome.node_name))
        core.step()
        return outcome.node_name
    assert isinstance(outcome, Unschedulable)
    return outcome.diagnosis.message


def _about(outcome: object, waiting: Pod) -> bool:
    if isinstance(outcome, AssumedPod):
        return outcome.pod.uid == waiting.uid
    return isinstance(outcome, Unschedulable) and outcome.waiting.pod.uid == waiting.uid


def test_a_reservation_avoids_pods_with_anti_affinity_to_its_pod() -> None:
    """Regression: the reserve pod had no labels. A reservation was Active where its owner could never run."""
    core = Core(*hosts("node-a", "node-b"))
    core.add(pod("loner", node_name="node-a", affinity=far(term(WEB))))
    entry = core.reservation(**template(WEB))
    core.step()

    assert (entry.phase, entry.node) == (Phase.ACTIVE, "node-b")
    assert decide(core, pod("web-0", labels=WEB)) == "node-b"


def test_a_reservation_waits_if_existing_pods_reject_its_pod_by_anti_affinity() -> None:
    core = Core(*hosts("node-a"))
    core.add(pod("loner", node_name="node-a", affinity=far(term(WEB))))
    entry = core.reservation(**template(WEB))
    core.step()

    assert (entry.phase, entry.reason) == (Phase.PENDING, reasons.NO_MATCHING_NODE)
    assert "node(s) didn't satisfy existing pods anti-affinity rules" in entry.message

    core.event_handlers.pods.remove(pod("loner", node_name="node-a", affinity=far(term(WEB))))
    core.step()
    assert entry.phase is Phase.ACTIVE


def test_a_reservation_for_the_first_pod_of_a_series_is_placed() -> None:
    """A pod may be the first of those that its affinity requires.

    Regression: a reserve pod had no labels, so it never was.
    """
    core = Core(zoned("node-a", "a"))
    entry = core.reservation(**template(WEB, affinity=near(term(WEB, ZONE))))
    core.step()

    assert (entry.phase, entry.node) == (Phase.ACTIVE, "node-a")
    assert decide(core, pod("web-0", labels=WEB, affinity=near(term(WEB, ZONE)))) == "node-a"


def test_a_reservation_counts_itself_for_spread_constraints() -> None:
    """Regression: the reservation was held in zone a.

    With a skew of 1 and one pod in zone a, its owner fits only in zone b.
    """
    core = Core(zoned("node-a", "a", cpu="64"), zoned("node-b", "b", cpu="4"))
    core.add(pod("web-9", node_name="node-a", labels=WEB))
    entry = core.reservation(**template(WEB, topologySpreadConstraints=spread(WEB)))
    core.step()

    assert entry.node == "node-b"
    waiting = pod("web-0", labels=WEB, topologySpreadConstraints=spread(WEB))
    assert decide(core, waiting) == "node-b"


def test_reservations_are_spread_among_themselves() -> None:
    """Regression: no reserve pod was counted.

    All three were held in one zone, where only one of their pods could run.
    """
    core = Core(zoned("node-a", "a", cpu="64"), zoned("node-b", "b"), zoned("node-c", "c"))
    shape = template(WEB, topologySpreadConstraints=spread(WEB), nodeSelector={})
    entries = [core.reservation(f"web-{n}", owner=f"web-{n}", **shape) for n in range(3)]
    core.step()

    assert sorted(entry.node for entry in entries) == ["node-a", "node-b", "node-c"]
    for n in (2, 0, 1):
        waiting = pod(f"web-{n}", labels=WEB, topologySpreadConstraints=spread(WEB))
        assert decide(core, waiting) == entries[n].node


def test_two_reservations_with_one_host_port_are_on_two_nodes() -> None:
    """Regression: host ports were not held. Both were Active on one node, where only one pod could run."""
    core = Core(*hosts("node-a"))
    first = core.reservation("first", owner="first", **template(containers=port(8080)))
    second = core.reservation("second", owner="second", **template(containers=port(8080)))
    core.step()

    assert [first.phase, second.phase] == [Phase.ACTIVE, Phase.PENDING]
    core.event_handlers.nodes.upsert(None, *hosts("node-b"))
    core.step()
    assert [first.node, second.node] == ["node-a", "node-b"]


def test_a_pod_does_not_get_the_host_port_of_a_reservation() -> None:
    """Regression: any pod could take the port before the owner came."""
    core = Core(*hosts("node-a"))
    core.reservation("first", owner="first", **template(containers=port(8080)))
    core.step()

    thief = pod("thief", containers=port(8080))
    assert "node(s) didn't have free ports for the requested pod ports" in decide(core, thief)
    assert decide(core, pod("first", containers=port(8080))) == "node-a"


def test_a_pod_avoids_a_reservation_for_a_pod_with_anti_affinity_to_it() -> None:
    """Regression: the pod was placed beside the reservation, and the owner of that no longer fitted there."""
    core = Core(*hosts("node-a", "node-b"))
    entry = core.reservation(
        **template({"app": "db"}, affinity=far(term(WEB))), owner="db-0", nodeName="node-a"
    )
    core.step()
    assert entry.phase is Phase.ACTIVE

    assert decide(core, pod("web-1", labels=WEB)) == "node-b"
    assert decide(core, pod("db-0", labels={"app": "db"}, affinity=far(term(WEB)))) == "node-a"


def test_a_pod_with_anti_affinity_to_the_pod_of_a_reservation_avoids_it() -> None:
    core = Core(*hosts("node-a", "node-b"))
    core.reservation(**template(WEB), nodeName="node-a")
    core.step()

    assert decide(core, pod("loner", affinity=far(term(WEB)))) == "node-b"
    assert decide(core, pod("web-0", labels=WEB)) == "node-a"


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


def test_the_affinity_of_a_pod_ignores_reserve_pods() -> None:
    """The owner of a reservation may never come, so no pod may be placed for its sake."""
    core = Core(zoned("node-a", "a"))
    core.reservation(owner="db-0", **template({"app": "db"}))
    core.step()

    seeking = pod("web-0", affinity=near(term({"app": "db"}, ZONE)))
    assert "node(s) didn't match pod affinity rules" in decide(core, seeking)
    assert decide(core, pod("db-0", labels={"app": "db"})) == "node-a"
    assert core.cache.named(seeking.key) is not None


def test_the_affinity_of_a_reservation_counts_other_reservations() -> None:
    """The members of a gang are held near each other before any of their pods exists."""
    core = Core(zoned("node-a", "a", cpu="1"), zoned("node-c", "c", cpu="64"), zoned("node-b", "b", cpu="4"))
    core.reservation("db", owner="db-0", nodeName="node-b", **template({"app": "db"}))
    core.step()
    seeking = core.reservation(
        "web", owner="web-0", **template(WEB, affinity=near(term({"app": "db"}, ZONE)))
    )
    core.step()

    assert (seeking.phase, seeking.node) == (Phase.ACTIVE, "node-b")


def test_a_reservation_with_affinity_to_another_one_is_retried_once_that_is_active() -> None:
    core = Core(zoned("node-a", "a"))
    seeking = core.reservation(
        "web", owner="web-0", **template(WEB, affinity=near(term({"app": "db"}, ZONE)))
    )
    core.step()
    assert phase(seeking) is Phase.PENDING

    core.reservation("db", owner="db-0", **template({"app": "db"}))
    core.step()
    core.step()
    assert phase(seeking) is Phase.ACTIVE


def test_a_reservation_with_affinity_prefers_existing_pods_to_reserve_pods() -> None:
    core = Core(zoned("node-a", "a", cpu="64"), zoned("node-b", "b"))
    core.reservation("db", owner="db-0", nodeName="node-a", **template({"app": "db"}))
    core.add(pod("db-1", node_name="node-b", labels={"app": "db"}))
    core.step()
    seeking = core.reservation(
        "web", owner="web-0", **template(WEB, affinity=near(term({"app": "db"}, ZONE)))
    )
    core.step()

    assert seeking.node == "node-b"


def test_the_first_pod_of_a_series_joins_the_reservations_of_the_others() -> None:
    """Regression: a pod without a reservation began the series in zone b.

    The owners of reservations in zone a could not follow.
    """
    core = Core(zoned("node-a", "a"), zoned("node-b", "b", cpu="64"))
    series = {"affinity": near(term(WEB, ZONE))}
    for n in range(2):
        core.reservation(f"web-{n}", owner=f"web-{n}", nodeName="node-a", **template(WEB, **series))
    core.step()
    core.step()

    assert decide(core, pod("web-9", labels=WEB, **series)) == "node-a"
    for n in (1, 0):
        assert decide(core, pod(f"web-{n}", labels=WEB, **series)) == "node-a"


def test_the_first_owner_of_a_series_may_join_the_other_reservations() -> None:
    core = Core(zoned("node-a", "a"), zoned("node-b", "b", cpu="64"))
    series = {"affinity": near(term(WEB, ZONE))}
    for n in range(2):
        core.reservation(f"web-{n}", owner=f"web-{n}", nodeName="node-a", **template(WEB, **series))
    core.step()
    core.step()

    for n in (1, 0):
        assert decide(core, pod(f"web-{n}", labels=WEB, **series)) == "node-a"


def test_preferences_count_reservations() -> None:
    """Regression: three reservations of a Deployment that prefers to be spread were all held in one zone."""
    core = Core(zoned("node-a", "a", cpu="64"), zoned("node-b", "b"), zoned("node-c", "c"))
    shape = template(WEB, topologySpreadConstraints=wish(WEB))
    entries = [core.reservation(f"web-{n}", owner=f"web-{n}", **shape) for n in range(3)]
    core.step()

    assert sorted(entry.node for entry in entries) == ["node-a", "node-b", "node-c"]


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

    assert "node(s) didn't satisfy existing pods anti-affinity rules" in decide(core, borrower("web", WEB))
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
