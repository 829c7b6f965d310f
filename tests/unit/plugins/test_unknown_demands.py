import json
from typing import Any

import pytest

from tidelock.cluster.cache import Cache
from tidelock.cluster.columns import Columns
from tidelock.cluster.snapshot import Snapshot
from tidelock.framework.api import Code, Handle, Status
from tidelock.framework.cyclestate import CycleState
from tidelock.ledger.book import Book
from tidelock.model.pods import decode_pod
from tidelock.plugins.unknown_demands import UnknownDemands


def verdict(**spec: Any) -> Status:
    raw = {"metadata": {"name": "web-0", "namespace": "shop", "uid": "1"}, "spec": {"containers": [], **spec}}
    columns = Columns()
    plugin = UnknownDemands(Handle(Book(columns), Cache(columns)), {})
    return plugin.pre_filter(CycleState(), decode_pod(json.dumps(raw).encode()), Snapshot.of(columns))


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (
            {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
            "the claim of volume data",
        ),
        ({"volumes": [{"name": "scratch", "ephemeral": {}}]}, "the claim of volume scratch"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
    ],
)
def test_a_demand_that_no_plugin_checks_is_refused_by_name(spec: dict[str, Any], named: str) -> None:
    status = verdict(**spec)

    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert f"does not know {named}" in status.reasons[0]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "token", "projected": {"sources": []}}]},
        {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
    ],
)
def test_wishes_and_what_needs_no_checking_pass(spec: dict[str, Any]) -> None:
    assert verdict(**spec).ok


def test_all_demands_are_told_at_once() -> None:
    status = verdict(resourceClaims=[{"name": "gpu"}], volumes=[{"name": "scratch", "ephemeral": {}}])

    assert "the claim of volume scratch, spec.resourceClaims" in status.reasons[0]
