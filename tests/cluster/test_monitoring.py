"""Alerts and the dashboard query only exported metrics, and every panel shows something.

It needs an API server that serves the objects that panels show.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from cluster.live import Node
from cluster.operator_process import OperatorProcess
from cluster.water_level import water_level
from cluster.world import World
from devcluster import wait_for
from devcluster.loopback import HOST
from devcluster.prometheus import PrometheusServer
from replay.exporter import Exporter

MONITORING = Path(__file__).resolve().parents[2] / "manifests" / "monitoring"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
METRIC = re.compile(r"\b(?:tidelock|scheduler|process)_[a-z_]+")
# Metrics of failures and of other binders. They have no series before the first one, and none occurs here.
RARE = {
    "tidelock_api_write_errors_total",
    "tidelock_water_level_read_errors_total",
    "tidelock_admission_reviews_total",
    "tidelock_extender_request_seconds_bucket",
}
ADDED_BY_PROMETHEUS = {"pod"}  # added by the Prometheus operator, to be exact

Target = dict[str, str]
Series = dict[str, Any]


def targets() -> dict[str, Target]:
    """Return the queries of all panels, by the title of the panel and the reference of the query."""
    panels = json.loads((MONITORING / "tidelock.json").read_text())["panels"]
    return {
        f"{panel['title']}, {target['refId']}": target
        for panel in panels
        for target in panel.get("targets", ())
    }


def alerts() -> list[str]:
    (group,) = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]["groups"]
    return [rule["expr"] for rule in group["rules"]]


@pytest.fixture
def scraping(exporter: Exporter, operator: OperatorProcess, tmp_path: Path) -> Iterator[PrometheusServer]:
    """Run a Prometheus that scrapes the operator, as the job that alerts and the dashboard query."""
    scraped = [exporter.address, f"{HOST}:{operator.port}"]
    with PrometheusServer(tmp_path / "prometheus", scraped, job="tidelock") as server:
        yield server


def asked_by_grafana(query: str) -> str:
    """Return a query with the values of the dashboard's variables."""
    return query.replace("$__rate_interval", "1h").replace("$cluster", ".*").replace("$namespace", ".*")


def answer(server: PrometheusServer, query: str) -> list[Series]:
    asked = f"{server.url}/api/v1/query?{urlencode({'query': query})}"
    with urlopen(asked) as told:  # noqa: S310 -- loopback
        series: list[Series] = json.load(told)["data"]["result"]
        return series


def test_every_query_names_only_metrics_that_are_exported(operator: OperatorProcess) -> None:
    with urlopen(f"http://{HOST}:{operator.port}/metrics") as told:
        families = text_string_to_metric_families(told.read().decode())
        exported = {family.name + suffix for family in families for suffix in SUFFIXES.get(family.type, ())}
    queries = [*(target["expr"] for target in targets().values()), *alerts()]
    asked = {name for query in queries for name in METRIC.findall(query)}
    assert asked
    assert asked <= exported
    assert asked >= RARE


@pytest.fixture
def node(world: World, exporter: Exporter, scraping: PrometheusServer) -> Iterator[Node]:
    """Yield a node with measured use."""
    made = world.node(cpu="4")
    exporter.nodes[made.name] = (0.3, 0.5)
    level = water_level(world, scraping.url, stalenessSeconds=600)
    yield made
    level.delete()


def test_every_panel_shows_something(world: World, node: Node, scraping: PrometheusServer) -> None:
    world.active_reservation("spare", "1", node)
    gone = world.active_reservation("gone", "1", node, retention="Retain")
    next_to_go = world.active_reservation("next-to-go", "10m", node, retention="Retain")
    late = world.reservation("late", "2500m", node)
    late.until_condition("Active", "False", "InsufficientCapacity")
    gone.edit(ttlSeconds=1)
    late.until_phase("Active")
    world.reservation("huge", "100", node, pendingDeadlineSeconds=600)
    # The increase of a counter begins with its second scraped value.
    first = f'tidelock_reservations_ended_total{{namespace="{world.namespace}"}}'
    wait_for(lambda: answer(scraping, first), what="a scrape after the first end")
    next_to_go.edit(ttlSeconds=1)
    world.pod("web-0", "1m").until_bound()
    world.pod("web-1", "8").until_refused("Insufficient cpu")
    shown = {
        name: target for name, target in targets().items() if not RARE & set(METRIC.findall(target["expr"]))
    }

    def dark() -> list[str]:
        """Return the names of queries without series, or without a label of their legend."""
        return [
            name
            for name, target in shown.items()
            if not (series := answer(scraping, asked_by_grafana(target["expr"])))
            or not all(labels(target) <= each["metric"].keys() for each in series)
        ]

    wait_for(dark, lambda names: not names, what="every panel to show something", interval=1.0)


def labels(target: Target) -> set[str]:
    return set(re.findall(r"{{(\w+)}}", target["legendFormat"])) - ADDED_BY_PROMETHEUS
