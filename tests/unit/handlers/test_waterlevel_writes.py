from typing import Any, cast

import kopf
import pytest

from builders import NOW
from tidelock.handlers import waterlevels
from tidelock.handlers.waterlevels import desired_status
from tidelock.kube.client import WATERLEVELS
from tidelock.kube.errors import ServerError
from unit.handlers.registered import function
from unit.scheduler.fake_api import FakeApi
from unit.scheduler.machinery import HandClock

PATH = WATERLEVELS.item("pool")


@pytest.fixture
async def api() -> FakeApi:
    """Give an API server with a WaterLevel that nobody has looked at."""
    api = FakeApi()
    api.objects[PATH] = {
        "metadata": {"name": "pool", "uid": "uid-pool", "resourceVersion": "1", "generation": 1},
        "spec": {"source": {"metricsServer": {}}},
    }
    return api


async def see(api: FakeApi, body: dict[str, Any] | None = None, kind: str | None = "MODIFIED") -> None:
    registry = kopf.OperatorRegistry()
    waterlevels.register(registry, api, HandClock())
    await function(registry, "reconcile")(body=kopf.Body(cast("Any", body or api.objects[PATH])), type=kind)


async def test_a_status_is_written_and_not_written_again(api: FakeApi) -> None:
    await see(api)
    await see(api)

    (asked,) = api.asked
    assert (asked.method, asked.path) == ("PATCH", f"{PATH}/status")
    assert asked.body["metadata"] == {"resourceVersion": "1"}
    assert api.objects[PATH]["status"] == desired_status(api.objects[PATH], NOW)


async def test_fields_that_are_not_wanted_are_taken_out(api: FakeApi) -> None:
    api.edit(PATH, {"status": {"surprise": 1}})
    await see(api)

    assert "surprise" not in api.objects[PATH]["status"]


async def test_what_is_gone_or_going_is_left_alone(api: FakeApi) -> None:
    body = api.objects[PATH]
    await see(api, kind="DELETED")
    await see(api, {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2027-01-15T08:00:00Z"}})

    assert api.asked == []


async def test_a_waterlevel_that_is_gone_meanwhile_is_no_error(api: FakeApi) -> None:
    await see(api, api.objects.pop(PATH))

    assert len(api.asked) == 1


async def test_a_write_that_fails_is_left_to_kopf_to_repeat(api: FakeApi) -> None:
    api.fails(ServerError("etcd is down", status=500))

    with pytest.raises(kopf.TemporaryError, match="status of pool was not written: 500: etcd is down"):
        await see(api)
