import asyncio
from typing import Any, cast

import kopf
import pytest

from builders import NOW
from tidelock.handlers import waterlevels
from tidelock.handlers.waterlevels import refusal
from tidelock.kube.client import WATERLEVELS
from tidelock.kube.errors import ApiError, Conflict, NotLeading, ServerError
from tidelock.load.loop import LoadLoop
from tidelock.model.api.water_level import WaterLevelSpec
from unit.handlers.registered import function
from unit.scheduler.fake_api import FakeApi
from unit.scheduler.machinery import HandClock

PATH = WATERLEVELS.item("pool")
GOOD: dict[str, Any] = {"source": {"metricsServer": {}}}
BAD: dict[str, Any] = {**GOOD, "refreshSeconds": "often"}


class Noted(LoadLoop):
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, WaterLevelSpec | None]] = []

    def observe(self, body: Any, spec: WaterLevelSpec) -> None:
        self.told.append((body["metadata"]["name"], spec))

    def forget(self, name: str, uid: str) -> None:
        assert uid == f"uid-{name}"
        self.told.append((name, None))


@pytest.fixture
async def api() -> FakeApi:
    """Give an API server with a WaterLevel whose spec is invalid."""
    api = FakeApi()
    api.objects[PATH] = body()
    return api


def body(**parts: Any) -> dict[str, Any]:
    metadata = {"name": "pool", "uid": "uid-pool", "resourceVersion": "1", "generation": 2}
    return {"metadata": metadata, "spec": BAD, **parts}


async def see(
    api: FakeApi, seen: dict[str, Any] | None = None, kind: str | None = "MODIFIED"
) -> list[tuple[str, WaterLevelSpec | None]]:
    registry, load = kopf.OperatorRegistry(), Noted()
    waterlevels.register(registry, api, load, HandClock(), lambda: lambda _: asyncio.sleep(0))
    await function(registry, "reconcile")(body=kopf.Body(cast("Any", seen or api.objects[PATH])), type=kind)
    return load.told


async def test_the_handler_leaves_no_finalizer(api: FakeApi) -> None:
    registry = kopf.OperatorRegistry()
    waterlevels.register(registry, api, Noted(), HandClock(), lambda: lambda _: asyncio.sleep(0))

    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()


async def test_a_valid_waterlevel_is_measured(api: FakeApi) -> None:
    assert await see(api, body(spec=GOOD)) == [("pool", WaterLevelSpec.model_validate(GOOD))]
    assert api.asked == []


async def test_what_is_gone_or_going_is_measured_no_more(api: FakeApi) -> None:
    going = body(spec=GOOD)
    going["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"

    assert await see(api, going) == await see(api, body(spec=GOOD), kind="DELETED") == [("pool", None)]
    assert api.asked == []


async def test_an_invalid_waterlevel_is_measured_no_more_and_told_once(api: FakeApi) -> None:
    assert await see(api) == [("pool", None)]
    await see(api)

    (asked,) = api.asked
    assert (asked.method, asked.path) == ("PATCH", f"{PATH}/status")
    assert asked.body["metadata"] == {"resourceVersion": "1"}
    status = api.objects[PATH]["status"]
    assert status["observedGeneration"] == 2
    assert {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]} == {
        "Ready": ("False", "InvalidSpec"),
        "Stalled": ("True", "InvalidSpec"),
    }
    assert "spec.refreshSeconds" in status["conditions"][0]["message"]


async def test_fields_that_are_not_wanted_are_taken_out(api: FakeApi) -> None:
    api.edit(PATH, {"status": {"nodesMeasured": 1}})
    await see(api)

    assert "nodesMeasured" not in api.objects[PATH]["status"]


async def test_a_waterlevel_that_is_gone_meanwhile_is_no_error(api: FakeApi) -> None:
    await see(api, api.objects.pop(PATH))

    assert len(api.asked) == 1


async def test_a_write_that_fails_is_repeated_until_it_succeeds(api: FakeApi) -> None:
    """The handler left that to Kopf, which drops errors of handlers of plain events: nothing was written."""
    api.fails(ServerError("etcd is down", status=500))
    api.fails(ServerError("etcd is down", status=500))
    await see(api)

    assert len(api.asked) == 3
    assert api.objects[PATH]["status"]["observedGeneration"] == 2


@pytest.mark.parametrize(
    "error",
    [Conflict("it has changed", status=409), NotLeading("the Lease is lost")],
    ids=lambda e: type(e).__name__,
)
async def test_a_write_that_is_of_no_use_any_more_is_not_repeated(api: FakeApi, error: ApiError) -> None:
    api.fails(error)
    await see(api)

    assert len(api.asked) == 1


def test_a_transition_time_stays_while_the_status_does() -> None:
    first = refusal(body(), "wrong", NOW)

    assert refusal(body(status=first), "wrong", NOW + 800) == first
