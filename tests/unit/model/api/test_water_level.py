import json
from typing import Any

import pytest
from pydantic import ValidationError

from tidelock.model.api.water_level import WaterLevelSpec, WaterLevelStatus
from tidelock.model.api.wire import spec_problems

PROMETHEUS = {"prometheus": {"address": "http://prometheus.monitoring:9090"}}


def read(**changes: Any) -> WaterLevelSpec:
    """Parse a valid spec with some fields replaced."""
    return WaterLevelSpec.model_validate_json(json.dumps({"source": PROMETHEUS} | changes))


def test_only_a_source_is_required() -> None:
    spec = read()
    assert [(window.duration, window.weight) for window in spec.windows] == [("15m", 1), ("1h", 1), ("1d", 1)]
    assert spec.target.mode == "Dynamic"
    assert (spec.refresh_seconds, spec.staleness_seconds) == (30, 900)
    assert (spec.pod_estimation.default_cpu, spec.pod_estimation.default_memory) == ("250m", "200Mi")


def test_initialisms_are_upper_case_on_the_wire() -> None:
    spec = read(
        source={"prometheus": PROMETHEUS["prometheus"] | {"queries": {"nodeCPU": "a", "podCPU": "b"}}},
        podEstimation={"defaultCPU": "1"},
    )
    assert spec.source.prometheus is not None
    assert spec.source.prometheus.queries is not None
    assert (spec.source.prometheus.queries.node_cpu, spec.source.prometheus.queries.pod_cpu) == ("a", "b")
    assert spec.pod_estimation.default_cpu == "1"


@pytest.mark.parametrize(
    "address",
    [
        "http://prometheus",
        "https://prometheus.monitoring:9090/base/",
        "http://[fd00::1]:9090",
        "http://p/a@b",
    ],
)
def test_an_address_is_a_base_url(address: str) -> None:
    prometheus = read(source={"prometheus": {"address": address}}).source.prometheus
    assert prometheus is not None
    assert prometheus.address == address


@pytest.mark.parametrize(
    "address", ["prometheus:9090", "http://", "http://p?a=b", "https://ann:secret@prometheus"]
)
def test_an_address_has_no_credentials_and_no_query(address: str) -> None:
    """Check that an address never has credentials, which all users with access to WaterLevels could read."""
    with pytest.raises(ValidationError) as caught:
        read(source={"prometheus": {"address": address}})
    assert spec_problems(caught.value).startswith("spec.source.prometheus.address: ")


def test_a_problem_names_its_field() -> None:
    with pytest.raises(ValidationError) as caught:
        read(windows=[{"duration": "5m", "weight": 1}])
    assert spec_problems(caught.value).startswith("spec.windows[0].duration: ")


def test_a_level_is_read_from_its_status() -> None:
    level = {"mean": 40, "min": 10, "max": 70, "standardDeviation": 15, "target": 35}
    status = WaterLevelStatus.model_validate({"cpu": level, "nodesMeasured": 5, "later": "field"})
    assert status.cpu is not None
    assert status.cpu.standard_deviation == 15
    assert status.memory is None
