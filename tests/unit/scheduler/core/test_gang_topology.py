"""Groups that are packed into one domain or spread over domains."""

import pytest

from builders import Json, node, pod
from tidelock.model import reasons
from tidelock.model.pods import Pod
from tidelock.plugins.inter_pod_affinity import InterPodAffinity
from tidelock.scheduler.core import gang as gang_module
from tidelock.scheduler.core.gang import too_few_text
from unit.scheduler.gang import (
    ACTIVE,
    PENDING,
    Gang,
    cluster,
)
from unit.scheduler.machinery import Core

# Domains of nodes.

ZONE = "topology.kubernetes.io/zone"


def zones(**cpus: str) -> Core:
    """Build nodes named after their zone and a number, such as x1, with so much CPU."""
    return Core(*(node(name, cpu=cpu, labels={ZONE: name[0]}) for name, cpu in cpus.items()))


def places(gang: Gang) -> list[str]:
    return sorted(gang[number].node for number in range(gang.size))


def test_a_packed_group_is_placed_in_one_domain_or_not_at_all() -> None:
    core = zones(x1="2", y1="1", y2="2", z1="9")
    core.event_handlers.nodes.upsert(None, node("nowhere", cpu="9"))
    core.event_handlers.nodes.remove(core.decider.columns.nodes[core.decider.columns.row_of["z1"]])
    gang = Gang(core, 3, topology={"mode": "Pack", "key": ZONE}).come()
    gang.give()
    assert places(gang) == ["y1", "y2", "y2"]
    large = Gang(core, 3, name="large", topology={"mode": "Pack", "key": ZONE}).come()
    large.settle()
    assert large.phases == [PENDING] * 3
    assert too_few_text(3, 2) in large[0].message


def test_a_late_member_of_a_packed_group_is_placed_in_its_domain() -> None:
    core = zones(x1="2", y1="9")
    core.add(pod("there", node_name="y1", requests={"cpu": "9"}))
    gang = Gang(core, 3, least=2, topology={"mode": "Pack", "key": ZONE}).come(pendingDeadlineSeconds=600)
    gang.give()
    assert gang.phases == [ACTIVE, ACTIVE, PENDING]
    core.event_handlers.nodes.upsert(None, node("y2", labels={ZONE: "y"}))
    gang.settle()
    assert gang.phases == [ACTIVE, ACTIVE, PENDING]
    core.event_handlers.nodes.upsert(None, node("x2", labels={ZONE: "x"}))
    gang.settle()
    assert places(gang) == ["x1", "x1", "x2"]


APART: Json = {
    "resources": None,
    "template": {
        "metadata": {"labels": {"job": "train"}},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1m"}}}],
            "affinity": {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchLabels": {"job": "train"}}, "topologyKey": ZONE}
                    ]
                }
            },
        },
    },
}
"""Two of these fit in no zone, which only a search can find out."""


def search(zone_count: int = 100, *waiting: Pod) -> Gang:
    """Begin to search many zones for a group that fits in none of them. Pods may wait besides."""
    names = [f"z{number:03}" for number in range(zone_count)]
    core = Core(*(node(name, cpu="9", labels={ZONE: name}) for name in names))
    core.add(*waiting)
    gang = Gang(core, topology={"mode": "Pack", "key": ZONE}).come(**APART, pendingDeadlineSeconds=600)
    core.step()
    assert core.decider.reservation_scheduler._gangs.searching
    assert gang.phases == [PENDING] * 2
    return gang


def test_many_domains_are_tried_a_few_at_a_time_and_pods_have_their_turns() -> None:
    gang = search()
    core, placed = gang.core, 0
    core.add(*(pod(f"web-{number}", requests={"cpu": "1m"}) for number in range(200)))
    while core.decider.reservation_scheduler._gangs.searching:
        tries = core.decider.reservation_scheduler._gangs.tries
        placed += core.step() is not None
        assert core.decider.reservation_scheduler._gangs.tries - tries <= 64 + 2
    assert core.decider.reservation_scheduler._gangs.tries >= 200
    assert 100 <= placed <= 200, "as many pods as tried members"
    gang.settle()
    assert too_few_text(2, 1) in gang[1].message


def test_no_pod_delays_the_second_part_of_a_search_that_has_just_begun() -> None:
    gangs = search(100, pod("web-0")).core.decider.reservation_scheduler._gangs
    assert gangs.tries > 64 + 2


def test_a_search_goes_on_without_a_pause_if_nothing_else_waits() -> None:
    gang = search()
    assert gang.core.decider.next_due() == 0
    gang.settle()
    assert not gang.core.decider.reservation_scheduler._gangs.searching
    assert gang.core.decider.next_due() != 0


def test_each_step_of_a_search_tries_a_domain_even_if_its_limit_is_one_member(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gang_module, "_TRIES_A_STEP", 1)
    gang = search(zone_count=4)
    for _ in range(6):
        gang.core.step()
    assert "and 1 fit" in gang[1].message


def test_members_that_are_edited_to_fit_during_a_search_are_placed() -> None:
    gang = search()
    for number in range(2):
        gang.member(number, template=None)
    gang.settle()
    assert gang.phases == [ACTIVE] * 2
    assert len(set(places(gang))) == 1


def test_capacity_that_comes_free_during_a_search_starts_it_again() -> None:
    gang = search()
    gang.core.event_handlers.nodes.upsert(None, node("late", cpu="9", labels={ZONE: "a"}))
    gang.settle()
    assert gang.phases == [PENDING] * 2
    assert gang.core.decider.reservation_scheduler._gangs.tries > 400


def test_a_search_ends_with_its_group() -> None:
    gang = search()
    for number in range(2):
        gang.drop(number)
    gang.settle()
    assert not gang.core.decider.reservation_scheduler._gangs.searching


def test_the_fault_of_a_plugin_ends_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    gang = search()
    with monkeypatch.context() as patched:
        patched.setattr(InterPodAffinity, "filter", lambda *_: 1 / 0)
        gang.settle()
    assert [gang[number].reason for number in range(2)] == [reasons.PLUGIN_FAILED] * 2
    gang.core.event_handlers.nodes.upsert(None, node("late", cpu="9", labels={ZONE: "a"}))
    gang.settle()
    assert "and 1 fit" in gang[1].message


def test_a_spread_group_is_distributed_as_evenly_as_the_capacity_allows() -> None:
    core = zones(x1="9", y1="9", z1="1")
    gang = Gang(core, 5, topology={"mode": "Spread", "key": ZONE}).come()
    gang.give()
    assert places(gang) == ["x1", "x1", "y1", "y1", "z1"]
    small = Gang(core, 15, name="small", topology={"mode": "Spread", "key": ZONE}).come()
    small.settle()
    assert "and 14 fit" in small[0].message


@pytest.mark.parametrize("mode", ["Pack", "Spread"])
def test_without_any_domain_no_member_is_placed(mode: str) -> None:
    gang = Gang(cluster("9"), topology={"mode": mode, "key": ZONE}).come()
    gang.settle()
    assert gang.phases == [PENDING] * 2
