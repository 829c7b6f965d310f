"""The conditions of a request follow from its stored conditions and its group."""

import pytest

from builders import NOW, Json
from tidelock.integrations.provisioning_requests.status import is_final, render_failed, render_request
from unit.integrations.provisioning_requests.requests import ACTIVE, conditions, ended, group, request

WAITING = ended("Pending", "InsufficientCapacity", "2 members need 2 cpu")
EXPIRED = ended("Expired", "Expired", "the time is over")
CONSUMED = ended("Consumed", "Consumed", "2 of 2 reservations taken by their pods")


def rendered(*groups: Json | None) -> Json:
    """Return the status after a sequence of statuses of the group, where None stands for no group."""
    status: Json = {}
    for each in groups:
        asked = request(status=status)
        status = render_request(asked, None if each is None else group(asked, each), NOW)
    return status


def message(status: Json, kind: str) -> str:
    return next(str(each["message"]) for each in status["conditions"] if each["type"] == kind)


def test_a_request_is_accepted_before_its_group_exists() -> None:
    assert conditions(rendered(None)) == {"Accepted": "True", "Provisioned": "False"}


def test_a_waiting_request_shows_what_its_group_lacks() -> None:
    status = rendered(None, WAITING)
    assert conditions(status) == {"Accepted": "True", "Provisioned": "False"}
    assert message(status, "Provisioned") == "2 members need 2 cpu"


def test_held_capacity_is_provisioned_and_names_its_end_and_its_group() -> None:
    status = rendered(None, WAITING, ACTIVE)
    assert conditions(status) == {"Accepted": "True", "Provisioned": "True"}
    assert message(status, "Provisioned").endswith("until 2027-01-15T08:10:00Z")
    assert status["provisioningClassDetails"] == {"reservationGroup": request().group_key.name}


@pytest.mark.parametrize(
    ("groups", "final"),
    [
        ([ended("Rejected", "DeadlineExceeded", "too late")], "Failed"),
        ([ended("Lost", "NodeLost", "the node is gone")], "Failed"),
        ([ACTIVE, EXPIRED], "BookingExpired"),
        ([EXPIRED], "BookingExpired"),
        ([ACTIVE, CONSUMED], "BookingExpired"),
        ([CONSUMED], "BookingExpired"),
        ([ACTIVE, WAITING], "CapacityRevoked"),
        ([ACTIVE, ended("Lost", "NodeLost", "the node is gone")], "CapacityRevoked"),
        ([ACTIVE, ended("Terminating", "Terminating", "the object is being deleted")], "CapacityRevoked"),
        ([ACTIVE, None], "CapacityRevoked"),
    ],
)
def test_the_end_of_a_group_is_a_final_condition(groups: list[Json | None], final: str) -> None:
    status = rendered(*groups)
    provisioned = "False" if final == "Failed" else "True"
    assert conditions(status) == {"Accepted": "True", "Provisioned": provisioned, final: "True"}
    assert is_final(request(status=status))


def test_a_final_condition_stays_whatever_happens_later() -> None:
    status = rendered(ACTIVE, WAITING)
    assert render_request(request(status=status), group(request(), ACTIVE), NOW + 9) == status


def test_a_request_without_a_group_yet_is_not_revoked() -> None:
    assert "CapacityRevoked" not in conditions(rendered(WAITING, None))


def test_a_transition_time_changes_only_with_its_status() -> None:
    status = render_request(request(status=rendered(WAITING)), group(request(), ACTIVE), NOW + 60)
    times = {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
    assert times["Accepted"] < times["Provisioned"]


def test_each_condition_has_all_fields_that_the_api_requires() -> None:
    required = {"type", "status", "reason", "message", "lastTransitionTime"}
    for status in (rendered(None), rendered(ACTIVE, EXPIRED), render_failed(request(), "bad", NOW)):
        for each in status["conditions"]:
            assert required <= each.keys()
            assert all(each[name] for name in required)


def test_conditions_and_fields_of_others_stay() -> None:
    other = ACTIVE["conditions"][0] | {"type": "Audited"}
    stored = {"conditions": [other], "provisioningClassDetails": {"by": "another"}}
    for status in (
        render_request(request(status=stored), None, NOW),
        render_failed(request(status=stored), "bad", NOW),
    ):
        assert other in status["conditions"]
        assert status["provisioningClassDetails"] == {"by": "another"}


def test_a_request_that_can_not_be_served_has_failed() -> None:
    status = render_failed(request(), "spec.parameters.ttl: unknown", NOW)
    assert conditions(status) == {"Accepted": "False", "Provisioned": "False", "Failed": "True"}
    assert message(status, "Failed") == "spec.parameters.ttl: unknown"
