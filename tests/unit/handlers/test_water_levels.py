"""Events of a WaterLevel: it is measured, or its status has the reason why not."""

from collections.abc import Mapping
from typing import Any, cast

import kopf
import pytest

from builders import NOW
from tidelock.handlers import water_levels
from tidelock.kube.client import WATERLEVELS
from tidelock.kube.errors import ApiError, Conflict, NotLeading, ServerError
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.model.meta import ObjectMeta
from tidelock.scheduler.controllers.water_levels import WaterLevelController, render_invalid
from unit.handlers.registered import function
from unit.scheduler.fake_api import FakeApi
from unit.scheduler.machinery import Shell

PATH = WATERLEVELS.item("pool")
GOOD: dict[str, Any] = {"source": {"metricsServer": {}}}
BAD: dict[str, Any] = {**GOOD, "refreshSeconds": "often"}


class Noted:
    """Records its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, WaterLevelSpec | None]] = []

    def observe(self, body: Mapping[str, Any], spec: WaterLevelSpec) -> None:
        self.calls.append((body["metadata"]["name"], spec))

    def forget(self, name: str, uid: str) -> None:
        assert uid == f"uid-{name}"
        self.calls.append((name, None))


@pytest.fixture
async def shell() -> Shell:
    """Return a scheduler, and an API server with an invalid WaterLevel."""
    shell = Shell()
    shell.api.objects[PATH] = body()
    return shell


@pytest.fixture
def api(shell: Shell) -> FakeApi:
    return shell.api


def body(**parts: Any) -> dict[str, Any]:
    metadata = {"name": "pool", "uid": "uid-pool", "resourceVersion": "1", "generation": 2}
    return {"metadata": metadata, "spec": BAD, **parts}


async def see(
    shell: Shell, *seen: dict[str, Any], kind: str | None = "MODIFIED"
) -> list[tuple[str, WaterLevelSpec | None]]:
    """Deliver versions of the WaterLevel as Kopf does, and return the measured ones."""
    registry, measuring = kopf.OperatorRegistry(), Noted()
    water_levels.register(registry, WaterLevelController(shell.context, measuring))
    for version in seen or (shell.api.objects[PATH],):
        await function(registry, "reconcile")(body=kopf.Body(cast("Any", version)), type=kind)
    await shell.settle()
    return measuring.calls


async def test_the_handler_leaves_no_finalizer(shell: Shell) -> None:
    registry = kopf.OperatorRegistry()
    water_levels.register(registry, WaterLevelController(shell.context, Noted()))

    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()


async def test_a_valid_waterlevel_is_measured(shell: Shell, api: FakeApi) -> None:
    assert await see(shell, body(spec=GOOD)) == [("pool", WaterLevelSpec.model_validate(GOOD))]
    assert api.asked == []


async def test_a_deleted_or_terminating_water_level_is_not_measured(shell: Shell, api: FakeApi) -> None:
    going = body(spec=GOOD)
    going["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"

    assert await see(shell, going) == await see(shell, body(spec=GOOD), kind="DELETED") == [("pool", None)]
    assert api.asked == []


async def test_an_invalid_water_level_is_not_measured_and_reported_once(shell: Shell, api: FakeApi) -> None:
    assert await see(shell) == [("pool", None)]
    await see(shell)

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


async def test_outdated_fields_of_the_status_are_removed(shell: Shell, api: FakeApi) -> None:
    api.edit(PATH, {"status": {"nodesMeasured": 1}})
    await see(shell)

    assert "nodesMeasured" not in api.objects[PATH]["status"]


async def test_a_water_level_that_is_deleted_meanwhile_is_no_error(shell: Shell, api: FakeApi) -> None:
    await see(shell, api.objects.pop(PATH))

    assert len(api.asked) == 1


async def test_a_write_that_fails_is_repeated_until_it_succeeds(shell: Shell, api: FakeApi) -> None:
    """The handler once left this to Kopf, which drops errors of event handlers, so nothing was written."""
    api.fails(ServerError("etcd is down", status=500))
    api.fails(ServerError("etcd is down", status=500))
    await see(shell)
    while shell.tasks.await_pause():
        await shell.settle()

    assert len(api.asked) == 3
    assert api.objects[PATH]["status"]["observedGeneration"] == 2


@pytest.mark.parametrize(
    "error",
    [Conflict("it has changed", status=409), NotLeading("the Lease is lost")],
    ids=lambda e: type(e).__name__,
)
async def test_a_write_after_a_conflict_or_the_end_of_the_leadership_is_not_repeated(
    shell: Shell, api: FakeApi, error: ApiError
) -> None:
    api.fails(error)
    await see(shell)

    assert len(api.asked) == 1


async def test_a_water_level_that_has_become_valid_gets_no_refusal(shell: Shell, api: FakeApi) -> None:
    told = await see(shell, body(), body(spec=GOOD))

    assert told == [("pool", None), ("pool", WaterLevelSpec.model_validate(GOOD))]
    assert api.asked == []


async def test_a_deleted_water_level_gets_no_refusal(shell: Shell, api: FakeApi) -> None:
    controller = WaterLevelController(shell.context, Noted())
    controller.upsert(body())
    controller.remove(body())
    await shell.settle()

    assert api.asked == []


def test_a_transition_time_stays_while_the_status_is_unchanged() -> None:
    meta = ObjectMeta("pool", generation=2)
    first = render_invalid(meta, {}, "wrong", NOW)

    assert render_invalid(meta, first, "wrong", NOW + 800) == first
