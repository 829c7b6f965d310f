import logging
from typing import Any

import pytest

from tidelock.kube.errors import Forbidden
from tidelock.load.restore import StoredUse, stored_uses
from tidelock.model.meta import OwnerReference
from tidelock.model.usage_annotations import POD_USAGE, PodUsage, Stat, WorkloadKey
from unit.load.patches import PatchApi

TEXT = '{"at":"2027-01-15T08:00:00Z","windows":{"1d":{"cpu":{"mean":1,"max":2,"p95":2}}}}'
USAGE = PodUsage(1_800_000_000.0, {"1d": {"cpu": Stat(1, 2, 2)}})


def workload(name: str, text: str | None = TEXT) -> dict[str, Any]:
    annotations = {} if text is None else {POD_USAGE: text}
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "annotations": annotations}
    return {"metadata": metadata, "spec": {"a": [1]}}


def stored(kind: str, name: str, api_version: str = "apps/v1") -> StoredUse:
    return StoredUse(USAGE, OwnerReference(api_version, kind, name, f"uid-{name}"))


def serving(**pages: list[Any]) -> PatchApi:
    api = PatchApi()
    for plural in ("deployments", "statefulsets", "daemonsets"):
        api.objects[f"/apis/apps/v1/{plural}"] = pages.get(plural, [[]])
    api.objects["/apis/batch/v1/jobs"] = pages.get("jobs", [[]])
    return api


async def test_stored_use_is_read_by_page_without_kinds_that_are_not_installed() -> None:
    api = serving(deployments=[[workload("a"), workload("b", None)], [workload("c")]], jobs=[[workload("a")]])
    assert await stored_uses(api) == {
        WorkloadKey("Deployment", "shop", "a"): stored("Deployment", "a"),
        WorkloadKey("Deployment", "shop", "c"): stored("Deployment", "c"),
        WorkloadKey("Job", "shop", "a"): stored("Job", "a", "batch/v1"),
    }


async def test_unreadable_use_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = await stored_uses(serving(deployments=[[workload("a", "{}"), workload("b")]]))

    assert found.keys() == {WorkloadKey("Deployment", "shop", "b")}
    assert [record.message for record in caplog.records] == ["stored use of pods is unreadable"]


async def test_a_workload_with_null_annotations_has_none() -> None:
    bare = workload("a")
    bare["metadata"]["annotations"] = None

    found = await stored_uses(serving(deployments=[[bare, workload("b")]]))

    assert found.keys() == {WorkloadKey("Deployment", "shop", "b")}


async def test_a_kind_that_may_not_be_listed_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    api = serving(deployments=[[workload("a")]], statefulsets=[[workload("b")]])
    api.faults.append(Forbidden("no", status=403))
    with caplog.at_level(logging.WARNING):
        found = await stored_uses(api)

    assert found.keys() == {WorkloadKey("StatefulSet", "shop", "b")}
    assert [record.message for record in caplog.records] == ["stored use of pods was not read"]
