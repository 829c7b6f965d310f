"""Schedules: reservations with repeated windows, on a real API server.

It needs an API server that refuses a second object of a name, and limits the number of objects.
"""

from datetime import UTC, datetime
from typing import Any

import pytest

from cluster.api import Manifest, RefusedError
from cluster.live import Live, Lock, condition, in_seconds
from cluster.operator_process import Launch
from cluster.world import World
from devcluster import wait_for
from tidelock.kube.client import RESERVATIONS

NEXT_YEAR = datetime.now(UTC).year + 1
# Seconds within which a window of a schedule with one window each minute has surely begun.
_A_WINDOW = 120.0


def until_status(schedule: Live, **expected: Any) -> Manifest:
    def as_expected(found: Manifest) -> bool:
        return all(found["status"].get(name) == value for name, value in expected.items())

    status: Manifest = schedule.until(as_expected, f"have the status {expected}")["status"]
    return status


def until_reason(schedule: Live, reason: str) -> Manifest:
    def ready(found: Manifest) -> bool:
        return condition(found["status"], "Ready").get("reason") == reason

    return condition(schedule.until(ready, f"be {reason}")["status"], "Ready")


def names(world: World) -> list[str]:
    items = world.api.get(RESERVATIONS.collection(world.namespace))["items"]
    return sorted(item["metadata"]["name"] for item in items)


def window(world: World, schedule: Live, start: str, place: int = 0) -> Lock:
    """Return the reservation of the window at this index in the status, and check the window's start."""
    told = schedule.until(lambda found: len(found["status"].get("windows", [])) > place, "have windows")
    assert told["status"]["windows"][place]["startAt"] == start
    return world.member(told["status"]["windows"][place]["name"])


def test_windows_are_planned_ahead_by_the_clocks_of_the_zone(world: World) -> None:
    node = world.node(cpu="2")
    schedule = world.schedule(schedule="30 2 1 1,7 *", timeZone="Asia/Tokyo", ahead=2)
    status = until_status(schedule, planned=2, active=0)
    # 2:30 in Tokyo is 17:30 on the day before.
    starts = {f"{NEXT_YEAR - 1}-12-31T17:30:00Z", f"{NEXT_YEAR}-06-30T17:30:00Z"}
    assert {each["startAt"] for each in status["windows"]} == starts
    assert status["nextStart"] in starts
    assert "lastStart" not in status

    reservation = window(world, schedule, status["nextStart"])
    assert reservation.until_phase("Planned")["nodeName"] == node.name
    stored = reservation.read()
    assert stored is not None
    assert stored["metadata"]["ownerReferences"][0]["uid"] == schedule.uid
    minutes = int(datetime.fromisoformat(status["nextStart"]).timestamp()) // 60
    assert reservation.name == f"nightly-{minutes}"
    until_status(schedule, planned=2)


@pytest.mark.nightly
def test_a_window_begins_and_the_next_one_is_planned(world: World) -> None:
    world.node(cpu="8")
    schedule = world.schedule(schedule="* * * * *", durationSeconds=1200)
    first = window(world, schedule, until_status(schedule, planned=1)["nextStart"])
    begun = wait_for(
        schedule.read,
        until=lambda found: found is not None and found["status"].get("active"),
        what="a window to begin",
        timeout=_A_WINDOW,
    )
    assert begun is not None
    assert begun["status"]["lastStart"] < begun["status"]["nextStart"]
    reservation = first.until_phase("Active")
    assert (reservation["activatedAt"], begun["status"]["windows"][0]["name"]) == (
        begun["status"]["lastStart"],
        first.name,
    )
    schedule.merge({"spec": {"suspend": True}})
    until_status(schedule, planned=0)
    until_reason(schedule, "Suspended")
    assert first.status()["phase"] == "Active"


def test_a_window_that_is_no_longer_on_the_schedule_is_deleted(world: World) -> None:
    world.node(cpu="2")
    schedule = world.schedule()
    reservation = window(world, schedule, f"{NEXT_YEAR}-01-01T00:00:00Z")
    reservation.until_phase("Planned")
    schedule.merge({"spec": {"schedule": "0 12 1 1 *"}})
    reservation.until_gone()
    moved = until_status(schedule, nextStart=f"{NEXT_YEAR}-01-01T12:00:00Z", planned=1)
    assert names(world) == [moved["windows"][0]["name"]]


def test_a_changed_template_creates_the_windows_again(world: World) -> None:
    world.node(cpu="2")
    schedule = world.schedule()
    reservation = window(world, schedule, f"{NEXT_YEAR}-01-01T00:00:00Z")
    schedule.merge({"spec": {"template": {"spec": {"resources": {"cpu": "2"}}}}})
    reservation.until_gone()
    again = world.member(reservation.name)
    assert again.until_phase("Planned")["resources"]["cpu"] == "2"


def test_a_window_that_is_deleted_before_it_begins_is_created_again(world: World) -> None:
    world.node(cpu="2")
    reservation = window(world, world.schedule(), f"{NEXT_YEAR}-01-01T00:00:00Z")
    reservation.api.delete(reservation.path)
    reservation.until_gone()
    assert world.member(reservation.name).uid != reservation.uid


def test_a_quota_that_forbids_the_windows_is_reported(world: World) -> None:
    world.quota(maxLifeSeconds=600, maxPriority=0)
    fits = world.schedule("fits")
    until_reason(fits, "Scheduled")
    until_status(fits, planned=1)
    told = until_reason(world.schedule("long", durationSeconds=601), "NotMade")
    assert "requested: maxLifeSeconds=601, limited: maxLifeSeconds=600" in told["message"]


def test_a_name_in_use_is_reported(world: World) -> None:
    minutes = int(datetime(NEXT_YEAR, 1, 1, tzinfo=UTC).timestamp()) // 60
    taken = world.reservation(f"nightly-{minutes}", startAt=in_seconds(3600))
    told = until_reason(world.schedule(), "NotMade")
    assert told["message"] == f"there is another Reservation {taken.name}"
    taken.api.delete(taken.path)
    until_reason(world.schedule("other"), "Scheduled")


def test_a_killed_operator_creates_no_window_twice(launch: Launch, private_world: World) -> None:
    world, operator = private_world, launch()
    world.node(cpu="8")
    schedule = world.schedule(ahead=4)
    wait_for(lambda: names(world), what="the first window to be made", interval=0.005)
    operator.kill()
    operator.start()
    operator.ready()
    status = until_status(schedule, planned=4)
    assert names(world) == sorted(each["name"] for each in status["windows"])
    assert [each["startAt"][:10] for each in status["windows"]] == [
        f"{NEXT_YEAR + years}-01-01" for years in range(4)
    ]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"schedule": "0 2 * *"}, "spec.schedule: .*expected five fields, minute \\(0-59\\)"),
        ({"schedule": "@every 1h"}, "spec.schedule: .*or one of @yearly"),
        ({"schedule": "TZ=UTC 0 2 * * *"}, "spec.schedule: "),
        ({"timeZone": "Mars/Olympus"}, "spec.timeZone: .*expected a time zone of the IANA database"),
        ({"timeZone": "Local"}, "spec.timeZone: .*expected a time zone of the IANA database"),
        ({"timeZone": "+02:00"}, "spec.timeZone: .*expected a time zone of the IANA database"),
        ({"durationSeconds": 0}, "spec.durationSeconds"),
        ({"ahead": 17}, "spec.ahead"),
    ],
)
def test_the_api_server_refuses_a_malformed_schedule(world: World, spec: Manifest, problem: str) -> None:
    with pytest.raises(RefusedError, match=problem):
        world.schedule(**spec)


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("startAt", "2030-01-01T00:00:00Z", "schedule sets when windows begin"),
        ("expireAt", "2030-01-01T00:00:00Z", "durationSeconds sets how long windows are"),
        ("ttlSeconds", 600, "durationSeconds sets how long windows are"),
        ("anyOf", "web", "windows of one schedule are no alternatives"),
        ("borrowable", True, "a reservation with a window can't be borrowed"),
    ],
)
def test_fields_that_contradict_a_schedule_are_refused_in_the_template(
    world: World, field: str, value: object, problem: str
) -> None:
    template = {"resources": {"cpu": "1"}, "owners": [{"pod": {"name": "web-0"}}], field: value}
    with pytest.raises(RefusedError, match=f"spec.template.spec.{field}: .*{problem}"):
        world.schedule(template={"spec": template})


def test_commit_is_refused_beside_preemption_or_automatic_moves_in_the_template(world: World) -> None:
    """The API server accepted these schedules, and their windows would have evicted pods when prepared."""
    template = {"resources": {"cpu": "1"}, "owners": [{"pod": {"name": "web-0"}}], "commit": {}}
    refusal = "spec.template.spec.preemptionPolicy: .*commit is refused beside preemptionPolicy"
    with pytest.raises(RefusedError, match=refusal):
        world.schedule(template={"spec": template | {"preemptionPolicy": "PreemptLowerPriority"}})
    refusal = "spec.template.spec.mayMove: .*commit is refused beside mayMove.automatically"
    with pytest.raises(RefusedError, match=refusal):
        world.schedule(template={"spec": template | {"mayMove": {"automatically": True}}})


def test_a_field_out_of_its_range_is_reported_in_the_status(world: World) -> None:
    told = until_reason(world.schedule(schedule="0 26 * * *"), "InvalidSpec")
    assert told["status"] == "False"
    assert told["message"].startswith("spec.schedule: '0 26 * * *': its hour can't be read")
