"""An edited template counts for other pods once its reservation fits its node with it."""

import json
from hashlib import sha256
from typing import Any

import pytest

from builders import Json, node, pod
from tidelock.ledger.output.status import render_reservation
from tidelock.ledger.reservation_info import ReservationInfo
from tidelock.model.api.reservation import Phase
from tidelock.model.pods import BORROWS, Pod, assigned_to
from tidelock.model.reserve_pod import AFFINITY, HOST_PORTS, LABELS, LIMITS
from unit.scheduler.machinery import Core
from unit.scheduler.reserve_pods import HOSTNAME, WEB, decide, far, hosts, port, template, term

DB = {"app": "db"}
UNREADABLE: Json = {"resources": {"cpu": "two"}}


def limited(cpu: str) -> Json:
    """Build a template with a limit of cpu."""
    shape = template()
    shape["template"]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": cpu}
    return shape


def edited(core: Core, generation: int, **fields: Any) -> ReservationInfo:
    """Deliver an edit of the reservation."""
    return core.reservation(owner="owner", generation=generation, version=generation, **fields)


def restarted(core: Core, entry: ReservationInfo, **fields: Any) -> tuple[Core, ReservationInfo]:
    """Start another process from the stored objects."""
    successor = Core(*hosts("node-a"), listed=False)
    for placed in core.cache.pods_on("node-a"):
        successor.add(assigned_to(placed.pod, "node-a"))
    status = render_reservation(entry, core.clock.now())
    return successor, successor.reservation(status=status, **fields)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize(
    ("obstacle", "edit", "bystander"),
    [
        (
            pod("here", containers=port(8080)),
            template(WEB, containers=[*port(8080), *port(9090)]),
            pod("bystander", containers=port(9090)),
        ),
        (
            pod("here", labels=DB),
            template(WEB, affinity=far(term(DB))),
            pod("bystander", labels=DB),
        ),
        (
            pod("here", affinity=far(term(DB))),
            template(DB),
            pod("bystander", affinity=far(term(DB))),
        ),
    ],
)
def test_an_edited_template_that_does_not_fit_keeps_no_pod_away(
    obstacle: Any, edit: Json, bystander: Any, *, restarts: bool
) -> None:
    """A new label, term or host port counted at once, in conflict with the pods that were there.

    So a tenant could close a node to all others by an edit that no decision had checked.
    """
    core = Core(*hosts("node-a"))
    entry = core.reservation(owner="owner", **template(WEB))
    core.step()
    assert decide(core, obstacle) == "node-a"

    fields: Json = {"owner": "owner", "generation": 2, "version": 2} | edit
    entry = core.reservation(**fields)
    core.decide()
    assert (entry.phase, entry.growing, entry.held["cpu"]) == (Phase.ACTIVE, True, 1000)
    assert entry.resize_problem
    if restarts:
        core, entry = restarted(core, entry, **fields)
        assert entry.growing
        core.list_all()
        core.decide()
    assert decide(core, bystander) == "node-a"

    core.event_handlers.pods.remove(assigned_to(obstacle, "node-a"))
    core.event_handlers.pods.remove(assigned_to(bystander, "node-a"))
    core.decide()
    assert (entry.growing, entry.resize_problem) == (False, "")
    assert decide(core, bystander) != "node-a"


@pytest.mark.parametrize("restarts", [False, True])
def test_unedited_parts_count_while_a_larger_size_waits(*, restarts: bool) -> None:
    core = Core(*hosts("node-a"))
    shape = template(WEB, affinity=far(term(DB)), containers=port(8080))
    entry = core.reservation(owner="owner", **shape)
    core.step()
    shape["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "200"
    fields: Json = {"owner": "owner", "generation": 2, "version": 2} | shape
    entry = core.reservation(**fields)
    core.decide()
    if restarts:
        core, entry = restarted(core, entry, **fields)
        core.list_all()
        core.decide()
    assert (entry.growing, entry.held["cpu"]) == (True, 1000)
    assert "free ports" in decide(core, pod("one", containers=port(8080)))
    assert "anti-affinity" in decide(core, pod("two", labels=DB))
    assert "anti-affinity" in decide(core, pod("three", affinity=far(term(WEB))))


def test_an_edit_that_is_reverted_counts_once_it_is_granted_again() -> None:
    core = Core(*hosts("node-a"))
    entry = core.reservation(owner="owner", **template(WEB, containers=port(8080)))
    core.step()
    assert decide(core, pod("here", containers=port(9090))) == "node-a"
    core.reservation(owner="owner", generation=2, version=2, **template(WEB, containers=port(9090)))
    core.decide()
    assert entry.growing
    core.reservation(owner="owner", generation=3, version=3, **template(WEB, containers=port(8080)))
    assert entry.growing
    core.step()
    assert not entry.growing
    assert "free ports" in decide(core, pod("thief", containers=port(8080)))


def test_an_edited_template_that_fits_counts_within_the_same_step() -> None:
    core = Core(*hosts("node-a"))
    core.reservation(owner="owner", **template(WEB))
    core.step()
    entry = core.reservation(
        owner="owner", generation=2, version=2, **template(DB, affinity=far(term(WEB)), containers=port(8080))
    )
    core.step()
    assert not entry.growing
    assert "free ports" in decide(core, pod("one", containers=port(8080)))
    assert "anti-affinity" in decide(core, pod("two", labels=WEB))
    assert "anti-affinity" in decide(core, pod("three", affinity=far(term(DB))))


def test_the_status_names_the_parts_with_which_a_reservation_was_placed() -> None:
    core = Core(*hosts("node-a"))
    entry = core.reservation(**template(WEB, affinity=far(term(DB)), containers=port(8080)))
    core.step()
    status = render_reservation(entry, core.clock.now())
    assert status["grantedTemplate"].keys() == {LABELS, AFFINITY, HOST_PORTS}
    bare = core.reservation("bare", owner="other")
    core.step()
    assert "grantedTemplate" not in render_reservation(bare, core.clock.now())


def test_a_limit_is_a_part_of_the_template() -> None:
    """Plugins for measured use expect the limit of a pod, so an edited one is a request that waits."""
    core = Core(*hosts("node-a"))
    entry = core.reservation(owner="owner", **limited("2"))
    core.step()
    assert entry.granted.keys() == {LIMITS}
    core.reservation(owner="owner", generation=2, version=2, **limited("200"))
    assert (entry.growing, entry.held_pod and entry.held_pod.likely_use[0]) == (True, 1000.0)
    core.step()
    assert (entry.growing, entry.held_pod and entry.held_pod.likely_use[0]) == (False, 200_000.0)


@pytest.mark.parametrize(
    ("before", "waiting"),
    [
        (template(DB, containers=port(8080)), pod("waiting", containers=port(8080))),
        (template(WEB), pod("waiting", affinity=far(term(WEB)))),
        (template(DB, affinity=far(term(WEB))), pod("waiting", labels=WEB)),
    ],
)
def test_a_pod_is_woken_when_an_edit_removes_what_kept_it_away(before: Json, waiting: Any) -> None:
    """No event followed, and the verdict for equal pods was kept, so it waited until the node changed."""
    core = Core(*hosts("node-a"))
    core.reservation(owner="owner", **before)
    core.step()
    core.add(waiting)
    core.refuse()
    core.reservation(owner="owner", generation=2, version=2, **template(DB))
    assert core.place().node_name == "node-a"


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("away", [template(), UNREADABLE], ids=["readable", "unreadable"])
@pytest.mark.parametrize(
    ("shape", "intruder"),
    [
        (template(containers=port(8080)), pod("intruder", containers=port(8080))),
        (template(WEB), pod("intruder", affinity=far(term(WEB)))),
        (template(affinity=far(term(WEB))), pod("intruder", labels=WEB)),
    ],
    ids=["port", "label", "anti-affinity"],
)
def test_a_part_that_an_edit_gave_up_does_not_come_back_unchecked(
    shape: Json, intruder: Pod, away: Json, *, restarts: bool
) -> None:
    """Regression: the reverted part counted at once, beside the pod that had been placed meanwhile."""
    core = Core(*hosts("node-a"))
    core.reservation(owner="owner", **shape)
    core.step()
    entry = edited(core, 2, **away)
    core.decide()
    assert "grantedTemplate" in render_reservation(entry, core.clock.now()) or away == template()
    assert decide(core, intruder) == "node-a"
    if restarts:
        core, entry = restarted(core, entry, owner="owner", generation=3, version=3, **shape)
        core.list_all()
    else:
        entry = edited(core, 3, **shape)
    assert (entry.phase, entry.growing) == (Phase.ACTIVE, True)
    core.decide()
    assert entry.resize_problem

    core.event_handlers.pods.remove(assigned_to(intruder, "node-a"))
    core.decide()
    assert (entry.growing, entry.resize_problem) == (False, "")
    assert decide(core, intruder) != "node-a"


def test_a_part_that_was_replaced_for_a_time_is_granted_again_before_it_counts() -> None:
    core = Core(*hosts("node-a"))
    entry = core.reservation(owner="owner", **template(WEB, containers=port(8080)))
    core.step()
    assert decide(core, pod("here", containers=port(9090))) == "node-a"
    edited(core, 2, **template(WEB, containers=port(9090)))
    core.decide()
    assert entry.granted.keys() == {LABELS}
    assert decide(core, pod("intruder", containers=port(8080))) == "node-a"
    edited(core, 3, **template(WEB, containers=port(8080)))
    core.decide()
    assert (entry.growing, bool(entry.resize_problem)) == (True, True)
    assert [each.host_ports for each in core.cache.reserve_pods.on("node-a")] == [()]


@pytest.mark.parametrize(
    ("change", "generation", "counts"),
    [
        ("as written", 1, True),
        ("absent", 1, True),
        ("absent", 2, False),
        ("absent, with an edit that waits", 1, False),
        ("empty", 1, False),
    ],
)
def test_a_status_without_granted_parts_is_of_another_version(
    change: str, generation: int, *, counts: bool
) -> None:
    """Regression: no part counted after an upgrade until the reservation was granted again.

    On a node that takes no more pods it never was, and a pod took its host port.
    """
    core = Core(*hosts("node-a"))
    fields: Json = {"owner": "owner"} | template(containers=port(8080))
    entry = core.reservation(**fields)
    core.step()
    status = render_reservation(entry, core.clock.now())
    if change == "empty":
        status["grantedTemplate"] = {}
    elif change != "as written":
        del status["grantedTemplate"]
    if "waits" in change:
        waits = {"type": "Reconciling", "status": "True", "reason": "ResizePending", "message": "no ports"}
        status["conditions"].append(status["conditions"][0] | waits)

    tainted = node("node-a", cpu="64", labels={HOSTNAME: "node-a"}, taints=["key=value:NoSchedule"])
    core = Core(tainted, listed=False)
    entry = core.reservation(status=status, generation=generation, version=2, **fields)
    core.list_all()
    core.decide()
    assert entry.growing is not counts
    thief = pod("thief", containers=port(8080), tolerations=[{"operator": "Exists"}])
    assert (decide(core, thief) != "node-a") is counts


def test_a_status_shows_that_no_part_of_a_template_was_granted() -> None:
    """An absent field would be read as the status of an earlier version, which had no such parts."""
    core = Core(*hosts("node-a"))
    core.add(pod("here", containers=port(8080), node_name="node-a"))
    core.reservation(owner="owner", nodeName="node-a")
    core.step()
    entry = edited(core, 2, nodeName="node-a", **template(containers=port(8080)))
    core.decide()
    assert render_reservation(entry, core.clock.now())["grantedTemplate"] == {}


def test_an_edit_of_a_reservation_that_is_lent_in_full_wakes_the_pods_that_it_kept_away() -> None:
    """Regression: no event followed, because the reservation held nothing beside its borrower."""
    core = Core(*hosts("node-a"))
    entry = core.reservation(owner="owner", borrowable=True, **template(DB, affinity=far(term(WEB))))
    core.step()
    borrower = pod("borrower", requests={"cpu": "1"}, annotations={BORROWS: "true"})
    assert decide(core, borrower) == "node-a"
    assert not entry.held
    core.add(pod("waiting", labels=WEB))
    core.refuse()
    edited(core, 2, borrowable=True, **template(DB))
    assert core.place().node_name == "node-a"


def test_an_owner_that_is_not_bound_wakes_no_pod_with_an_edit_that_waits() -> None:
    """Regression: the edited template counted for an instant, so its end was reported to all pods."""
    core = Core(*hosts("node-a"))
    entry = core.reservation(owner="owner", **template(DB))
    core.step()
    assert decide(core, pod("here", containers=port(8080))) == "node-a"
    edited(core, 2, **template(DB, containers=port(8080)))
    core.decide()
    assert entry.growing
    core.add(pod("waiting", containers=port(8080)))
    core.refuse()
    core.add(pod("owner", labels=DB))
    assumed = core.place()
    core.decide()
    core.enqueued.clear()

    core.decider.binding_failed(assumed, core.clock.now())
    core.decide()

    assert (entry.phase, entry.growing) == (Phase.ACTIVE, True)
    assert [each for each in core.enqueued if "Delete" in each[1]] == []
    assert [each.host_ports for each in core.cache.reserve_pods.on("node-a")] == [()]


def test_the_digest_of_a_part_depends_only_on_the_fields_that_are_set() -> None:
    """A later version with one more field in a term must read the same template as granted."""
    core = Core(*hosts("node-a"))
    entry = core.reservation(**template(WEB, affinity=far(term(DB)), containers=port(8080)))
    anti = {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": DB}, "topologyKey": HOSTNAME}
        ]
    }
    found = {LABELS: WEB, AFFINITY: [None, anti], HOST_PORTS: [["0.0.0.0", "TCP", 8080]]}  # noqa: S104
    encoded = {name: json.dumps(part, separators=(",", ":"), sort_keys=True) for name, part in found.items()}
    digests = {name: sha256(text.encode()).hexdigest()[:16] for name, text in encoded.items()}
    assert entry.reservation.parts == digests
