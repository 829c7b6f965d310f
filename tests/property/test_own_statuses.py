"""Objects of Tidelock's own kinds are read with any stored status, together with their spec."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic.alias_generators import to_camel

from builders import NAMESPACE, NOW, Json, encode, node, reservation_json
from property.foreign import changed, locations
from tidelock.ledger.output.group_status import missed_deadline, render_group, render_leaving_group
from tidelock.ledger.output.schedule_status import plan_windows, render_leaving_schedule, render_schedule
from tidelock.ledger.output.status import render_quota, render_reservation
from tidelock.ledger.queue.quotas import Charge
from tidelock.load import status as load_status
from tidelock.load.loop import condition_statuses
from tidelock.model.api.reservation import ReservationStatus
from tidelock.model.api.reservation_group import ReservationGroupStatus
from tidelock.model.api.reservation_quota import ReservationQuotaStatus
from tidelock.model.api.reservation_quote import ReservationQuoteStatus
from tidelock.model.api.reservation_schedule import ReservationScheduleStatus
from tidelock.model.api.water_level import WaterLevelSpec, WaterLevelStatus
from tidelock.model.api.wire import StatusWire, legible
from tidelock.model.conditions import failed
from tidelock.model.meta import Key
from tidelock.model.quotas import ReservationQuota, decode_reservation_quota
from tidelock.model.reservation import Reservation, decode_reservation
from tidelock.model.reservation_group import ReservationGroup, decode_group
from tidelock.model.reservation_quote import Quote, decode_quote
from tidelock.model.reservation_schedule import ReservationSchedule, decode_schedule
from tidelock.model.water_level import level_in_force
from tidelock.scheduler.core.dry_run import DryRunResult, render_dry_run
from unit.scheduler.machinery import Core

_AT = "2027-01-15T07:59:00Z"
_CONDITION = {
    "type": "Active",
    "status": "True",
    "reason": "Admitted",
    "message": "",
    "lastTransitionTime": _AT,
    "observedGeneration": 1,
}
_COMMON = {"observedGeneration": 1, "conditions": [_CONDITION]}
_LEVEL = {"mean": 1, "min": 1, "max": 1, "standardDeviation": 0, "target": 1, "limit": 1}
_OCCUPANT = {"namespace": "shop", "name": "a", "resources": {"cpu": "1"}, "expiresAt": _AT}

_TEMPLATE = {"resources": {"cpu": "1"}, "owners": [{"pod": {"name": "a"}}]}


def _use_reservation(reservation: Reservation) -> None:
    """Add the reservation to a ledger, and add a newer version once the ledger knows it."""
    assert reservation.spec is not None
    assert not reservation.problem
    core = Core(node("node-a"))
    for version in (
        reservation,
        decode_reservation(encode(reservation_json("a", version=2, status=reservation.status))),
    ):
        core.event_handlers.reservations.upsert(None, version)
        entry = core.ledger.entries[Key(NAMESPACE, "a")]
        core.ledger.acknowledge(reservation)
        assert render_reservation(entry, NOW)
        for _ in range(3):
            core.step()
        assert render_reservation(entry, NOW)


def _use_group(group: ReservationGroup) -> None:
    assert group.spec is not None
    assert not group.problem
    missed_deadline(group, None, NOW)
    assert group.removable_at is None or group.removable_at >= 0
    for status in (render_group(group, None, NOW), render_leaving_group(group, NOW)):
        assert isinstance(status, dict)
    assert failed(group.status, 1, "InternalError", "", NOW)["conditions"]


def _use_schedule(schedule: ReservationSchedule) -> None:
    assert schedule.spec is not None
    assert not schedule.problem
    plan = plan_windows(schedule, (), 0.0, NOW)
    assert render_schedule(schedule, (), plan, NOW)["conditions"]
    assert render_leaving_schedule(schedule, NOW)["conditions"]
    assert failed(schedule.status, 1, "InternalError", "", NOW)["conditions"]


def _use_quote(quote: Quote) -> None:
    assert quote.pod is not None
    assert not quote.problem
    assert quote.removable_at is None or quote.removable_at > -1e12
    assert render_dry_run(quote, DryRunResult(None, "PluginFailed", ""), NOW)["conditions"]
    assert failed(quote.status, 1, "InternalError", "", NOW)["conditions"]


def _use_quota(quota: ReservationQuota) -> None:
    assert quota.hard == {"cpu": 1000}
    assert not quota.problem
    assert render_quota(quota, Charge(), NOW)["conditions"]
    assert failed(quota.status, 1, "InternalError", "", NOW)["conditions"]


def _use_water_level(status: Json) -> None:
    in_force = level_in_force(WaterLevelSpec.model_validate({"source": {"metricsServer": {}}}), NOW)
    survey = load_status.LevelSurvey({}, {"cpu": load_status.Spread(1, 1, 1, 0, 1)}, NOW, in_force)
    aspects = load_status.aspects(survey, None, ())
    assert load_status.render_level(status, 1, survey, aspects, NOW)["conditions"]
    condition_statuses(status)


class Kind(NamedTuple):
    """A kind of object: the type of its status, a status with all fields, a spec, and a use of the object."""

    type: type[StatusWire]
    status: Json
    spec: Json
    use: Callable[[Json], None]


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "reservation": Kind(
            ReservationStatus,
            {
                **_COMMON,
                "phase": "Active",
                "nodeName": "node-a",
                "nodeUID": "uid-node-a",
                "activatedAt": _AT,
                "expiresAt": "2027-01-15T09:59:00Z",
                "finishedAt": _AT,
                "queue": {
                    "position": 1,
                    "length": 1,
                    "place": "1/1",
                    "estimatedStart": _AT,
                    "earmark": "node-a",
                },
                "lease": {"renewTime": _AT, "renewedAt": _AT, "renewBy": _AT, "lostAt": _AT},
                "commit": {"holds": 1, "token": "uid-a-1", "dueAt": _AT, "committedAt": _AT},
                "plan": {
                    "token": "abcdef",
                    "nodeName": "node-a",
                    "evictions": [{"namespace": "shop", "name": "b", "uid": "uid-b", "to": "node-b"}],
                    "begunAt": _AT,
                },
                "moved": 1,
                "boundPod": {"name": "a", "uid": "uid-a"},
                "occupiedSeconds": 1,
                "epoch": 1,
                "resources": {"cpu": "1"},
                "grantedTemplate": {"labels": "2f1c5a0d9e8b7c64", "hostPorts": "90ab13cd57ef2468"},
                "devices": [
                    {
                        "claim": "gpu",
                        "request": "gpu",
                        "deviceClassName": "gpu",
                        "driver": "gpu.example.com",
                        "pool": "node-a",
                        "device": "gpu-0",
                        "shareID": "uid-share",
                        "consumedCapacity": {"memory": "1Gi"},
                    }
                ],
                "used": {"cpu": "1"},
                "lent": {"cpu": "1"},
                "borrowers": 1,
                "owner": "pod/a",
            },
            _TEMPLATE | {"ttlSeconds": 600},
            lambda plain: _use_reservation(decode_reservation(encode(plain))),
        ),
        "group": Kind(
            ReservationGroupStatus,
            {
                **_COMMON,
                "phase": "Active",
                "members": 1,
                "ready": 1,
                "consumed": 0,
                "activatedAt": _AT,
                "expiresAt": _AT,
                "finishedAt": _AT,
            },
            {"members": [{"name": "worker", "count": 1, **_TEMPLATE}], "ttlSeconds": 600},
            lambda plain: _use_group(decode_group(encode(plain))),
        ),
        "schedule": Kind(
            ReservationScheduleStatus,
            {
                **_COMMON,
                "nextStart": _AT,
                "lastStart": _AT,
                "planned": 1,
                "active": 1,
                "windows": [{"name": "a-1", "startAt": _AT, "phase": "Planned"}],
            },
            {"schedule": "@daily", "durationSeconds": 600, "template": {"spec": _TEMPLATE}},
            lambda plain: _use_schedule(decode_schedule(encode(plain))),
        ),
        "quote": Kind(
            ReservationQuoteStatus,
            {
                **_COMMON,
                "answeredAt": _AT,
                "validUntil": _AT,
                "nodeName": "node-a",
                "count": 1,
                "fitsAt": _AT,
                "earliestStart": _AT,
                "blockers": {
                    "reasons": [{"reason": "a", "nodes": 1}],
                    "nodeName": "node-a",
                    "shortfall": {"cpu": "1"},
                    "locks": [_OCCUPANT],
                    "pods": [_OCCUPANT],
                },
            },
            {"resources": {"cpu": "1"}},
            lambda plain: _use_quote(decode_quote(encode(plain))),
        ),
        "quota": Kind(
            ReservationQuotaStatus,
            {
                **_COMMON,
                "hard": {"cpu": "1"},
                "used": {"cpu": "1"},
                "hardSeconds": {"cpu": "1"},
                "usedSeconds": {"cpu": "1"},
            },
            {"hard": {"cpu": "1"}},
            lambda plain: _use_quota(decode_reservation_quota(encode(plain))),
        ),
        "water level": Kind(
            WaterLevelStatus,
            {
                **_COMMON,
                "tide": "night",
                "nextTideChange": _AT,
                "weightPercent": 1,
                "unexplainedPercent": 1,
                "cpu": _LEVEL,
                "memory": _LEVEL,
                "nodesMeasured": 1,
                "nodesStale": 0,
                "nodesMissing": 0,
                "nodesInvalid": 0,
                "sampledAt": _AT,
            },
            {},
            lambda plain: _use_water_level(legible(WaterLevelStatus, plain.get("status"))),
        ),
    }
)

_ODD = st.sampled_from(
    [_AT, "Active", "1", "9999-12-31T23:59:59.9999999Z", "0001-01-01T00:00:00+14:00", "1E"]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | _ODD,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["type", "status", "name", "startAt", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", KINDS)
def test_the_status_has_all_fields_of_its_type_and_can_be_read(kind: str) -> None:
    each = KINDS[kind]
    fields = {field.alias or to_camel(name) for name, field in each.type.model_fields.items()}
    assert set(each.status) == fields
    assert legible(each.type, each.status) == each.status
    each.use(_plain(each, each.status))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_status_with_any_value_in_any_part_is_read(kind: str, data: st.DataObject) -> None:
    """Guard against a window that is no object, and a condition without a type, which ended the operator."""
    each = KINDS[kind]
    status = each.status
    for at in data.draw(st.lists(st.sampled_from([*locations(status)]), min_size=1, max_size=3)):
        if at in [*locations(status)]:
            status = changed(status, at, data.draw(JSON))
    each.use(_plain(each, status))


@pytest.mark.parametrize("kind", KINDS)
@given(status=JSON)
@settings(deadline=None, max_examples=30)
def test_an_object_with_any_json_value_as_its_status_is_read(kind: str, status: Any) -> None:
    KINDS[kind].use(_plain(KINDS[kind], status))


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_unreadable_field_of_a_status_is_left_out(kind: str) -> None:
    each = KINDS[kind]
    assert each.status
    for field in each.status:
        odd = changed(each.status, (field,), {"odd": [[]]})
        readable = legible(each.type, odd)
        assert readable | {field: None} == each.status | {field: None}, field


def _plain(kind: Kind, status: object) -> Json:
    metadata = {"name": "a", "namespace": NAMESPACE, "uid": "uid-a", "generation": 1, "resourceVersion": "1"}
    return {"metadata": metadata | {"creationTimestamp": _AT}, "spec": kind.spec, "status": status}
