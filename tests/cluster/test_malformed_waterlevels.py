"""Malformed WaterLevels, which the API server must refuse by the types and rules of the CRD.

It needs an API server that validates types and rules of the CRD.
"""

from typing import Any

import pytest

from cluster.api import Api, Manifest, RefusedError
from cluster.crds import install_crds
from devcluster import Cluster
from tidelock.kube.client import WATERLEVELS

PROMETHEUS = {"prometheus": {"address": "http://prometheus.monitoring:9090"}}
NIGHT = {
    "name": "night",
    "start": "0 22 * * *",
    "end": "0 6 * * *",
    "timeZone": "Europe/Berlin",
    "target": {"mode": "Static", "percent": 70},
}


@pytest.fixture(scope="module")
def api(controlplane: Cluster) -> Api:
    install_crds(controlplane)
    return Api(controlplane.kubeconfig)


def create(api: Api, **changes: Any) -> Manifest:
    manifest = {
        "apiVersion": "tidelock.dev/v1alpha1",
        "kind": "WaterLevel",
        "metadata": {"name": "malformed"},
        "spec": {"source": PROMETHEUS} | changes,
    }
    return api.create(f"{WATERLEVELS.collection()}?dryRun=All", manifest)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"source": {"metricsServer": {}}},
        {"target": {"mode": "Static", "percent": 40}},
        {"target": {"mode": "Dynamic", "minWeight": 0.2}},
        {"podEstimation": {"defaultCPU": 1, "defaultMemory": "1Gi"}},
        {"weightPercent": 0, "learnWeight": True},
        {"tides": [NIGHT, {"name": "noon", "start": "@daily", "end": "0 1 * * 1-5", "weightPercent": 0}]},
    ],
    ids=str,
)
def test_the_api_server_accepts(api: Api, changes: dict[str, Any]) -> None:
    assert create(api, **changes)["metadata"]["uid"]


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"source": {}}, "spec.source", "exactly one of prometheus and metricsServer"),
        ({"source": PROMETHEUS | {"metricsServer": {}}}, "spec.source", "exactly one of prometheus"),
        (
            {"source": {"prometheus": {"address": "prometheus:9090"}}},
            "spec.source.prometheus.address",
            "match",
        ),
        (
            {"source": {"prometheus": {"address": "https://ann:secret@prometheus:9090"}}},
            "spec.source.prometheus.address",
            "match",
        ),
        ({"nodeSelector": {}}, "spec.nodeSelector", "an empty selector is refused"),
        ({"refreshSeconds": 0}, "spec.refreshSeconds", "greater than or equal to 5"),
        ({"refreshSeconds": 1200}, "spec.stalenessSeconds", "at least refreshSeconds"),
        ({"windows": []}, "spec.windows", "at least 1 items"),
        ({"windows": 2 * [{"duration": "1h", "weight": 1}]}, "spec.windows[1]", "Duplicate"),
        ({"windows": [{"duration": "5m", "weight": 1}]}, "spec.windows[0].duration", "Unsupported value"),
        (
            {"windows": [{"duration": "1h", "weight": 0}]},
            "spec.windows[0].weight",
            "greater than or equal to 1",
        ),
        ({"target": {"mode": "Static"}}, "spec.target.percent", "required for Static"),
        ({"target": {"mode": "Dynamic", "percent": 40}}, "spec.target.percent", "refused for Dynamic"),
        ({"target": {"mode": "Static", "percent": 40, "minWeight": 1}}, "spec.target.minWeight", "refused"),
        ({"target": {"mode": "Static", "percent": 101}}, "spec.target.percent", "less than or equal to 100"),
        (
            {"overloadLimits": {"cpuPercent": 0}},
            "spec.overloadLimits.cpuPercent",
            "greater than or equal to 1",
        ),
        ({"weightPercent": 101}, "spec.weightPercent", "less than or equal to 100"),
        ({"tides": []}, "spec.tides", "at least 1 items"),
        ({"tides": [NIGHT, NIGHT]}, "spec.tides[1]", "Duplicate"),
        ({"tides": [{**NIGHT, "target": None}]}, "spec.tides[0]", "changes at least one of target"),
        ({"tides": [{**NIGHT, "start": "22:00"}]}, "spec.tides[0].start", "expected five fields"),
        ({"tides": [{**NIGHT, "timeZone": "Local"}]}, "spec.tides[0].timeZone", "IANA database"),
        ({"tides": [{**NIGHT, "target": {"mode": "Static"}}]}, "spec.tides[0].target.percent", "required"),
        ({"podEstimation": {"defaultCPU": "0"}}, "spec.podEstimation.defaultCPU", "more than 0"),
        ({"podEstimation": {"defaultMemory": "200"}}, "spec.podEstimation.defaultMemory", "unit missing"),
    ],
    ids=str,
)
def test_the_api_server_refuses(api: Api, changes: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        create(api, **changes)
    assert field in refusal.value.message
    assert words in refusal.value.message
