"""The reserve pod of a reservation is placed by the rules for its pod, and counts beside others."""

from typing import Any

from builders import Json, pod
from tidelock.model import reasons
from tidelock.model.api.reservation import Phase
from tidelock.plugins.inter_pod_affinity import EXISTING_ANTI_AFFINITY, POD_AFFINITY_MISMATCH
from tidelock.plugins.node_ports import NodePorts
from unit.scheduler.machinery import Core
from unit.scheduler.reserve_pods import (
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


def near(*terms: Json) -> Json:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def wish(labels: Json, key: str = ZONE, **more: Any) -> list[Json]:
    return spread(labels, key, whenUnsatisfiable="ScheduleAnyway", **more)


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
    assert EXISTING_ANTI_AFFINITY in entry.message

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
    assert NodePorts.reason in decide(core, thief)
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


def test_the_affinity_of_a_pod_ignores_reserve_pods() -> None:
    """The owner of a reservation may never come, so no pod may be placed for its sake."""
    core = Core(zoned("node-a", "a"))
    core.reservation(owner="db-0", **template({"app": "db"}))
    core.step()

    seeking = pod("web-0", affinity=near(term({"app": "db"}, ZONE)))
    assert POD_AFFINITY_MISMATCH in decide(core, seeking)
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
