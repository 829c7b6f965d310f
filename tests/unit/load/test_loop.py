"""The load loop: readings, annotations, statuses and metrics of WaterLevels."""

import asyncio

import pytest

import builders
from tidelock.kube.client import WATERLEVELS
from tidelock.kube.errors import Forbidden, ServerError
from tidelock.load import loop
from tidelock.load.groups import members
from tidelock.load.source import FailureReason, SourceError, UseReading
from tidelock.model.usage_annotations import NODE_LEVEL, POD_USAGE, MeasuredUses
from unit.load.scripted_loop import DB, SPEC, Bench


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(loop, "AT_LEISURE", 0.0)  # the past is read in slices, with a rest after each
    return Bench()


async def test_a_reading_is_written_to_nodes_and_status_and_again_only_if_it_moved(bench: Bench) -> None:
    bench.see()
    await bench.refresh()

    assert bench.annotated(NODE_LEVEL) == ["node-a", "node-b"]
    status = bench.statuses()[-1]
    assert status["nodesMeasured"] == 2
    assert bench.recorder.reasons == ["Measured"]
    known = len(bench.api.patches)
    await bench.refresh()
    await bench.refresh()
    assert len(bench.api.patches) == known


async def test_a_level_is_written_again_before_it_becomes_stale(bench: Bench) -> None:
    bench.see()
    await bench.refresh()
    known = len(bench.annotated(NODE_LEVEL))
    for _ in range(3):  # 90 s are half of the limit.
        await bench.refresh()

    assert bench.annotated(NODE_LEVEL)[known:] == ["node-a", "node-b"]


async def test_the_past_is_read_once_after_the_first_reading_was_published(bench: Bench) -> None:
    bench.source.before = 80.0
    bench.see()
    await bench.refresh()

    assert [times.step for times in bench.source.asked] == [60, 300, 900]
    first, last = (each["cpu"]["max"] for each in bench.statuses()[:2])
    assert (first, last > 70) == (40, True)
    assert bench.annotated(NODE_LEVEL) == ["node-a", "node-b", "node-a"]
    await bench.refresh()
    assert len(bench.source.asked) == 3


async def test_an_unavailable_past_is_not_requested_at_each_refresh(bench: Bench) -> None:
    bench.source.past_failure = SourceError(FailureReason.REFUSED, "too many samples")
    bench.see()
    await bench.refresh()
    await bench.refresh()
    assert len(bench.source.asked) == 1

    bench.clock.advance(600)
    await bench.refresh()
    assert len(bench.source.asked) == 2


async def test_levels_of_a_failing_source_become_stale_and_never_zero(bench: Bench) -> None:
    bench.see()
    await bench.refresh()
    levels = dict(bench._groups["pool"].estimate.levels)
    bench.source.failure = SourceError(FailureReason.TIMED_OUT, "no answer within 10 s")
    for _ in range(7):
        await bench.refresh()

    status = bench.statuses()[-1]
    assert (status["nodesMeasured"], status["nodesStale"]) == (0, 2)
    assert status["cpu"] is None
    assert [each["reason"] for each in status["conditions"]] == ["SourceTimedOut", "NothingFresh"]
    assert bench.recorder.reasons == ["Measured", "SourceTimedOut", "NothingFresh"]
    assert {name: level.at for name, level in bench._groups["pool"].estimate.levels.items()} == {
        name: level.at for name, level in levels.items()
    }
    errors = bench.registry.get_sample_value(
        "tidelock_water_level_read_errors_total", {"reason": "SourceTimedOut"}
    )
    assert errors == 7

    bench.source.failure = None
    await bench.refresh()
    assert bench.recorder.reasons[3:] == ["Measured", "Fresh"]


async def test_pods_and_workloads_are_measured_by_their_owners(bench: Bench) -> None:
    for name in ("db-0", "db-1"):
        bench.cache.upsert(
            builders.pod(name, node_name="node-a", controller="apps/v1/StatefulSet/db", uid=f"uid-{name}")
        )
    bench.source.pods = {"db-0": (1.0, 1e8), "db-1": (3.0, 1e8), "unknown": (9.0, 9e9)}
    bench.see()
    await bench.refresh()

    uses = bench.published[-1]
    assert uses.pods.keys() == {"uid-db-0", "uid-db-1"}
    assert uses.workloads[DB].windows["15m"]["cpu"].mean == 2
    assert bench.annotated(POD_USAGE) == ["db"]
    (patch,) = [each for each in bench.api.patches if "statefulsets" in each.path]
    assert patch.body["metadata"]["uid"] == "uid-db"

    for name in ("db-0", "db-1"):
        bench.cache.remove(f"uid-{name}")
    bench.source.pods = {}
    await bench.refresh()
    assert bench.published[-1].pods == {}
    assert bench.published[-1].workloads.keys() == {DB}


async def test_a_workload_on_nodes_of_two_waterlevels_is_annotated_by_the_oldest(bench: Bench) -> None:
    for name, node in (("db-0", "node-a"), ("db-1", "node-b")):
        controller = "apps/v1/StatefulSet/db"
        bench.cache.upsert(builders.pod(name, node_name=node, controller=controller, uid=f"uid-{name}"))
    bench.source.pods = {"db-0": (1.0, 1e8), "db-1": (3.0, 1e8)}
    narrow = {**SPEC, "nodeSelector": {"matchLabels": {"name": "node-a"}}}
    bench.see("all", created="2027-01-02T00:00:00Z")
    bench.see("narrow", narrow, created="2027-01-01T00:00:00Z")
    for name in ("narrow", "all"):
        await bench.refresh(name)

    assert bench.published[-1].workloads[DB].windows["15m"]["cpu"].mean == 1
    assert bench.annotated(POD_USAGE) == ["db"]


async def test_a_node_belongs_to_the_oldest_waterlevel_that_selects_it(bench: Bench) -> None:
    narrow = {**SPEC, "nodeSelector": {"matchLabels": {"name": "node-a"}}}
    bench.see("all", created="2027-01-02T00:00:00Z")
    bench.see("narrow", narrow, created="2027-01-01T00:00:00Z")
    groups = bench._groups
    nodes = bench.cache.columns.nodes

    assert members(groups["all"], groups.values(), nodes).keys() == {"node-b"}
    assert members(groups["narrow"], groups.values(), nodes).keys() == {"node-a"}
    bench.forget("narrow", "uid-narrow")
    assert members(groups["all"], groups.values(), nodes).keys() == {"node-a", "node-b"}


async def test_an_edit_keeps_the_measurements_unless_the_source_changes(bench: Bench) -> None:
    bench.see()
    await bench.refresh()
    estimate = bench._groups["pool"].estimate

    assert bench.see(spec={**SPEC, "stalenessSeconds": 60}).estimate is estimate
    other = {"prometheus": {"address": "http://prometheus:9090"}}
    assert bench.see(spec={**SPEC, "source": other}).estimate is not estimate
    again = bench.see(uid="uid-another")
    assert again.estimate.levels == {}


async def test_a_status_that_was_refused_is_written_at_the_next_refresh(bench: Bench) -> None:
    bench.see()
    await bench.refresh()
    bench.source.nodes |= {"node-a": (90.0, 50.0)}
    bench.api.faults.append(ServerError("etcd is down", status=500))
    bench.clock.advance(60)
    await bench.refresh()
    await bench.refresh()

    refused, written = bench.statuses()[-2:]
    assert refused["cpu"]["max"] > 20
    assert refused == written | {"sampledAt": refused["sampledAt"]}
    assert bench.api.statuses[WATERLEVELS.item("pool")]["status"]["cpu"] == written["cpu"]


async def test_a_waterlevel_is_read_in_the_background_until_it_is_forgotten(bench: Bench) -> None:
    running = asyncio.create_task(bench.run())
    group = bench.see()
    while not bench.annotated(NODE_LEVEL):  # noqa: ASYNC110 -- ends with the test's time-out.
        await asyncio.sleep(0.01)
    assert group.task is not None
    bench.forget("pool", "uid-pool")
    assert group.task is None
    assert bench._groups == {}
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_water_level_that_is_delivered_after_the_end_is_not_read(bench: Bench) -> None:
    """Kopf ends after the loop, and a coroutine that is never awaited would be logged."""
    running = asyncio.create_task(bench.run())
    group = bench.see()
    while group.task is None:  # noqa: ASYNC110 -- ends with the test's time-out.
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.see("late").task is None


async def test_stored_use_is_published_before_the_first_reading(bench: Bench) -> None:
    text = '{"at":"2027-01-15T08:00:00Z","windows":{"1d":{"cpu":{"mean":1,"max":2,"p95":2}}}}'
    meta = {"name": "db", "namespace": DB.namespace, "uid": "uid-db", "annotations": {POD_USAGE: text}}
    bench.api.objects["/apis/apps/v1/statefulsets"] = [[{"metadata": meta}]]
    running = asyncio.create_task(bench.run())
    while not bench.published:  # noqa: ASYNC110 -- ends with the test's time-out.
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert bench.published[0].workloads[DB].windows["1d"]["cpu"].mean == 1
    assert bench.published[0].pods == {}


async def test_annotations_of_a_deleted_water_level_are_removed_soon(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The annotations once stayed until the next periodic check."""
    monkeypatch.setattr("tidelock.load.loop._SOON", 0.0)
    running = asyncio.create_task(bench.run())
    bench.see()
    while len(bench.annotated(NODE_LEVEL)) < 2:  # noqa: ASYNC110 -- ends with the test's time-out.
        await asyncio.sleep(0.01)
    text = '{"at":"2027-01-15T08:00:00Z","windows":{"1d":{"cpu":{"mean":1,"max":2,"p95":2}}}}'
    for name in ("node-a", "node-b"):
        bench.cache.put_node(builders.node(name, uid=f"uid-{name}", annotations={NODE_LEVEL: text}))
    known = len(bench.api.patches)
    bench.listed.clear()
    bench.serve()
    bench.forget("pool", "uid-pool")
    while len(bench.api.patches) < known + 2:  # noqa: ASYNC110 -- ends with the test's time-out.
        await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    removed = bench.api.patches[known:]
    assert [patch.body["metadata"]["uid"] for patch in removed] == ["uid-node-a", "uid-node-b"]


async def test_annotations_of_a_deleted_water_level_are_removed_once_all_nodes_are_known(
    bench: Bench,
) -> None:
    pod = builders.pod("db-0", node_name="node-a", controller="apps/v1/StatefulSet/db", uid="uid-db-0")
    bench.cache.upsert(pod)
    bench.source.pods = {"db-0": (1.0, 1e8)}
    bench.see()
    await bench.refresh()
    assert bench.annotated(NODE_LEVEL) == ["node-a", "node-b"]
    text = '{"at":"2027-01-15T08:00:00Z","windows":{"1d":{"cpu":{"mean":1,"max":2,"p95":2}}}}'
    for name in ("node-a", "node-b"):
        bench.cache.put_node(builders.node(name, uid=f"uid-{name}", annotations={NODE_LEVEL: text}))
    await bench._tidy()
    assert bench.published[-1].workloads.keys() == {DB}
    known = len(bench.api.patches)

    bench.listed.clear()
    bench.serve()
    bench.known = False
    await bench._tidy()
    assert len(bench.api.patches) == known
    bench.known = True
    await bench._tidy()

    removed = bench.api.patches[known:]
    assert not any("annotations" in patch.body["metadata"] for patch in removed)
    assert [patch.body["metadata"]["uid"] for patch in removed] == ["uid-node-a", "uid-node-b", "uid-db"]
    assert bench.published[-1] == MeasuredUses({}, {})


@pytest.fixture
async def measured(bench: Bench) -> Bench:
    """Return the loop with one WaterLevel that has been read."""
    bench.see()
    await bench.refresh()
    return bench


async def test_a_late_deletion_of_an_earlier_object_does_not_end_a_water_level(bench: Bench) -> None:
    """Kopf handles objects concurrently.

    The deletion of an object that was recreated at once was handled after the creation of the second one.
    The second one was then not measured until it was edited.
    """
    earlier = {"metadata": {"name": "pool", "uid": "uid-earlier", "resourceVersion": "0"}}
    group = bench.see()
    bench.observe(earlier, group.spec)
    bench.forget("pool", "uid-earlier")
    assert bench._groups == {"pool": group}


async def test_a_water_level_without_a_deletion_event_is_forgotten(measured: Bench) -> None:
    """Kopf does not report deletions while it has no watch. Such a WaterLevel was once read forever."""
    measured.see("other")
    del measured.listed["pool"]
    measured.serve()
    await measured._tidy()

    assert measured._groups.keys() == {"other"}


async def test_all_water_levels_are_forgotten_if_their_crd_is_removed(measured: Bench) -> None:
    del measured.api.objects[WATERLEVELS.collection()]
    await measured._tidy()

    assert measured._groups == {}


async def test_water_levels_are_not_forgotten_if_they_cannot_be_listed(measured: Bench) -> None:
    """Their annotations stay, too, as the right to list may be missing for a while."""
    known = len(measured.api.patches)
    measured.api.faults.append(Forbidden("no", status=403))
    await measured._tidy()

    assert measured._groups.keys() == {"pool"}
    assert len(measured.api.patches) == known


async def test_a_metric_shows_that_pods_are_placed_by_requests(bench: Bench) -> None:
    def by_requests() -> float | None:
        return bench.registry.get_sample_value("tidelock_water_level_by_requests", {"waterlevel": "pool"})

    bench.see()
    await bench.refresh()
    assert by_requests() == 0
    bench.source.failure = SourceError(FailureReason.UNREACHABLE, "connection refused")
    for _ in range(7):
        await bench.refresh()
    assert by_requests() == 1
    bench.see(spec={**SPEC, "nodeSelector": {"matchLabels": {"no": "such"}}})
    await bench.refresh()
    assert by_requests() == 0


async def test_metrics_show_a_water_level_until_it_is_forgotten(bench: Bench) -> None:
    bench.see()
    await bench.refresh()
    labels = {"waterlevel": "pool", "resource": "memory", "statistic": "mean"}

    assert bench.registry.get_sample_value("tidelock_water_level_percent", labels) == 50
    assert bench.registry.get_sample_value("tidelock_water_level_lag_seconds", {"waterlevel": "pool"}) == 0
    bench.forget("pool", "uid-pool")
    assert bench.registry.get_sample_value("tidelock_water_level_percent", labels) is None


async def test_the_status_of_a_water_level_shows_a_failure_of_measuring(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a failure was once reported only by an event."""
    group = bench.see()

    async def fails(_now: float) -> UseReading:
        raise LookupError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(bench.source, "read", fails)
        following = asyncio.create_task(bench._follow(group, bench.source))
        for _ in range(20):
            await asyncio.sleep(0)
        following.cancel()
        await asyncio.wait([following])
    [status] = bench.statuses()
    assert [(each["type"], each["reason"]) for each in status["conditions"]] == [
        ("Ready", "InternalError"),
        ("Stalled", "InternalError"),
    ]
    assert "LookupError: a bug" in status["conditions"][0]["message"]
    await bench.refresh()
    assert [each["reason"] for each in bench.statuses()[-1]["conditions"]] == ["Measured", "Fresh"]


async def test_the_part_of_use_that_requests_do_not_explain_is_learned_and_weighs(bench: Bench) -> None:
    """The use of ten pods is half of their requests. Readings are half a minute apart."""
    (node,) = list(bench.source.nodes)[:1]
    bench.source.pods = {}
    for number in range(10):
        name = f"web-{number}"
        bench.cache.assume(builders.pod(name, requests={"cpu": f"{number}m"}), node)
        bench.source.pods[name] = (0.0005 * number, 1e8)
    bench.api.statuses[WATERLEVELS.item("pool")] = {
        "metadata": {"name": "pool", "uid": "uid-pool", "resourceVersion": "1", "generation": 1},
        "status": {"unexplainedPercent": 80},
    }
    bench.see(spec={**SPEC, "learnWeight": True, "weightPercent": 50})

    for _ in range(120):
        await bench.refresh()
    status = bench.statuses()[-1]
    assert 28 <= status["unexplainedPercent"] <= 30  # 80 % / e after an hour
    assert status["weightPercent"] == round(status["unexplainedPercent"] / 2)


async def test_without_a_wish_nothing_is_learned(bench: Bench) -> None:
    group = bench.see()
    await bench.refresh()
    assert group.unexplained.part is None
    assert "unexplainedPercent" not in bench.statuses()[-1]
    assert bench.statuses()[-1]["weightPercent"] == 100
