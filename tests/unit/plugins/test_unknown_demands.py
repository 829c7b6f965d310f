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

TERM = [{"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": TERM}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM[0]}]}


def verdict(**spec: Any) -> Status:
    raw = {"metadata": {"name": "web-0", "namespace": "shop", "uid": "1"}, "spec": {"containers": [], **spec}}
    columns = Columns()
    plugin = UnknownDemands(Handle(Book(columns), Cache(columns)), {})
    return plugin.pre_filter(CycleState(), decode_pod(json.dumps(raw).encode()), Snapshot.of(columns))


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"affinity": {"podAffinity": REQUIRED}}, "spec.affinity.podAffinity"),
        ({"affinity": {"podAntiAffinity": REQUIRED}}, "spec.affinity.podAntiAffinity"),
        (
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            "spec.topologySpreadConstraints",
        ),
        ({"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]}, "host ports"),
        (
            {"initContainers": [{"name": "proxy", "restartPolicy": "Always", "ports": [{"hostPort": 80}]}]},
            "host ports",
        ),
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
        {"affinity": {"podAffinity": PREFERRED}},
        {
            "topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}
            ]
        },
        {"volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "token", "projected": {"sources": []}}]},
        {"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]},
        {"initContainers": [{"name": "init", "ports": [{"hostPort": 80}]}]},
    ],
)
def test_wishes_and_what_needs_no_checking_pass(spec: dict[str, Any]) -> None:
    assert verdict(**spec).ok


def test_all_demands_are_told_at_once() -> None:
    status = verdict(resourceClaims=[{"name": "gpu"}], affinity={"podAffinity": REQUIRED})

    assert "spec.affinity.podAffinity, spec.resourceClaims" in status.reasons[0]
