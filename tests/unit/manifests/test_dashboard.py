"""The dashboard can be imported into any Grafana, and its queries are valid for Prometheus."""

import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from unit.manifests.promtool import run_promtool

DASHBOARD: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parents[3] / "manifests" / "monitoring" / "tidelock.json").read_text()
)
ROWS = [panel for panel in DASHBOARD["panels"] if panel["type"] == "row"]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
COLUMNS = 24
# The variables that the user chooses, and a built-in variable of Grafana.
CHOSEN = ["datasource", "cluster", "namespace"]
VARIABLES = {*CHOSEN, "__rate_interval"}
# Metrics with a namespace of reservations or pods.
NAMESPACED = re.compile(
    r"tidelock_(reservations_waiting|reservations_ended_total|reservation_(idle|occupied)_seconds_total)"
)

each_panel = pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])


def cells(panel: dict[str, Any]) -> set[tuple[int, int]]:
    """Return the cells of the grid that a panel covers."""
    place = panel["gridPos"]
    return {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}


def test_the_dashboard_has_a_uid_and_no_id() -> None:
    assert DASHBOARD["id"] is None
    assert DASHBOARD["uid"] == "tidelock"
    assert DASHBOARD["schemaVersion"] >= 39


def test_the_user_chooses_prometheus_clusters_and_namespaces() -> None:
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert list(variables) == CHOSEN
    source = variables.pop("datasource")
    assert (source["type"], source["query"]) == ("datasource", "prometheus")
    for name, each in variables.items():
        assert (each["type"], each["multi"], each["includeAll"]) == ("query", True, True)
        assert each["query"]["query"].endswith(f", {name})")
        # A series without the label is shown too.
        assert (each["allValue"], each["current"]["value"]) == (".*", "$__all")
    text = json.dumps(DASHBOARD)
    assert set(re.findall(r"\$\{?(\w+)", text)) == VARIABLES | {"__all"}


def test_panels_have_distinct_ids_and_do_not_overlap() -> None:
    numbers = Counter(panel["id"] for panel in DASHBOARD["panels"])
    assert set(numbers.values()) == {1}
    for one, other in combinations(DASHBOARD["panels"], 2):
        assert not cells(one) & cells(other), f"{one['title']} covers {other['title']}"
    assert max(x for panel in DASHBOARD["panels"] for x, _ in cells(panel)) < COLUMNS


@each_panel
def test_every_panel_has_a_title_a_description_and_a_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    references = [target["refId"] for target in panel["targets"]]
    assert len(set(references)) == len(references) > 0
    for part in (panel, *panel["targets"]):
        assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@each_panel
def test_every_series_of_a_panel_has_a_distinct_name(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        grouped = re.search(r"sum by \(([^)]+)\)|max by \(([^)]+)\)", target["expr"])
        shown = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        if grouped:
            assert shown == set(re.split(r",\s*", grouped[1] or grouped[2])) - {"le"}
        else:
            assert shown or target["legendFormat"]


@each_panel
def test_every_query_selects_only_the_metrics_of_tidelock(panel: dict[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        selectors = re.findall(r"\b(?:tidelock|scheduler|process)_\w+(?:{[^}]*})?", target["expr"])
        assert selectors
        for selector in selectors:
            assert '{job="tidelock",cluster=~"$cluster"' in selector
            assert ('namespace=~"$namespace"' in selector) == bool(NAMESPACED.match(selector))


def test_every_query_is_valid_for_prometheus(promtool: Path, tmp_path: Path) -> None:
    queries = [target["expr"] for panel in PANELS for target in panel["targets"]]
    rules = [
        {"record": f"query:{number}", "expr": query.replace("$__rate_interval", "5m").replace("$", "")}
        for number, query in enumerate(queries)
    ]
    written = tmp_path / "queries.yaml"
    written.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    run_promtool(promtool, "check", "rules", written)
