"""Alerts and dashboards ask for what the operator exports, in words that Prometheus understands."""

import json
import re
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from cluster.operator_process import OperatorProcess
from devcluster.loopback import HOST
from devcluster.prometheus import PrometheusServer

ROOT = Path(__file__).resolve().parents[2]
MONITORING = ROOT / "manifests" / "monitoring"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
METRIC = re.compile(r"\b(?:tidelock|scheduler)_[a-z_]+")


def rules() -> list[dict[str, str]]:
    (group,) = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]["groups"]
    found: list[dict[str, str]] = group["rules"]
    return found


def queries() -> list[str]:
    panels = json.loads((MONITORING / "tidelock.json").read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    return [*shown, *(rule["expr"] for rule in rules())]


def test_every_query_names_only_metrics_that_are_exported(operator: OperatorProcess) -> None:
    with urlopen(f"http://{HOST}:{operator.port}/metrics") as answer:
        families = text_string_to_metric_families(answer.read().decode())
        exported = {family.name + suffix for family in families for suffix in SUFFIXES.get(family.type, ())}
    asked = {name for query in queries() for name in METRIC.findall(query)}
    assert asked
    assert asked <= exported


def test_prometheus_understands_every_query(prometheus: PrometheusServer) -> None:
    for query in queries():
        asked = f"{prometheus.url}/api/v1/query?{urlencode({'query': query})}"
        with urlopen(asked) as answer:  # noqa: S310 -- loopback
            assert json.load(answer)["status"] == "success", query


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_has_a_runbook(rule: dict[str, str]) -> None:
    assert f"\n## {rule['alert']}\n" in (ROOT / "docs" / "runbooks.md").read_text()
