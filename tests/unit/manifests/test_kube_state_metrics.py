"""The configuration of kube-state-metrics matches the fields of the CRDs."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
RESOURCES: list[dict[str, Any]] = yaml.safe_load(
    (ROOT / "manifests" / "monitoring" / "kube-state-metrics.yaml").read_text()
)["spec"]["resources"]


def schema(kind: str) -> dict[str, Any]:
    crd = yaml.safe_load((ROOT / "crds" / f"{kind.lower()}s.yaml").read_text())
    (version,) = crd["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def test_every_phase_has_a_series() -> None:
    (reservation,) = (each for each in RESOURCES if each["groupVersionKind"]["kind"] == "Reservation")
    (phase,) = (each for each in reservation["metrics"] if each["name"] == "status_phase")
    status = schema("Reservation")["properties"]["status"]["properties"]
    assert phase["each"]["stateSet"]["list"] == status["phase"]["enum"]


def test_every_time_and_number_of_a_status_has_a_metric() -> None:
    assert RESOURCES
    for resource in RESOURCES:
        status = schema(resource["groupVersionKind"]["kind"])["properties"]["status"]["properties"]
        wanted = {
            name
            for name, field in status.items()
            if field.get("format") == "date-time" or field["type"] == "integer"
        } - {"observedGeneration", "epoch"}
        gauges = [each["each"]["gauge"]["path"] for each in resource["metrics"] if "gauge" in each["each"]]
        assert wanted <= {path[1] for path in gauges if path[0] == "status"}
