"""A real Prometheus scrapes the replicas by the ServiceMonitor, for the dashboard and the alerts."""

import base64
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest
import yaml

from devcluster.identity import MANIFESTS, SYSTEM_NAMESPACE
from devcluster.prometheus import PrometheusServer
from e2e.site import Json, Site
from e2e.stream import pod, reservation

pytestmark = pytest.mark.timeout(900)

_MONITORING = MANIFESTS / "monitoring"
_IN_SYSTEM = f"--namespace={SYSTEM_NAMESPACE}"
_METRIC = re.compile(r"\b(?:tidelock|scheduler|process)_[a-z_]+")
# Metrics that need a source of measured use, another scheduler or a failure.
_RARE = re.compile("tidelock_(water_level|api_write_errors|extender|admission)_")
_NAMESPACE = "e2e-monitoring"


@pytest.fixture
def prometheus(installed: Site, tmp_path: Path) -> Iterator[PrometheusServer]:
    """Run Prometheus on this machine, which reaches the pods through the API server."""
    monitor = yaml.safe_load((_MONITORING / "service-monitor.yaml").read_text())["spec"]
    job: Json = {"tls_config": _credentials(installed, tmp_path), "scheme": "https", "metrics_path": "/"}
    job |= {"honor_labels": monitor["endpoints"][0]["honorLabels"]}
    job |= {
        "static_configs": list(_targets(installed, monitor)),
        "scrape_interval": "5s",
        "scrape_timeout": "5s",
    }
    (name,) = {each["labels"].pop("job") for each in job["static_configs"]}
    with PrometheusServer(tmp_path / "prometheus", [], name, also=job) as server:
        yield server


def _targets(site: Site, monitor: Json) -> Iterator[Json]:
    """Yield the pods behind the port of the selected Services, as the Prometheus operator finds them."""
    (endpoint,) = monitor["endpoints"]
    chosen = ",".join(f"{name}={value}" for name, value in monitor["selector"]["matchLabels"].items())
    server = site.kubectl("config", "view", "--minify", "--output=jsonpath={.clusters[0].cluster.server}")
    for namespace in monitor["namespaceSelector"]["matchNames"]:
        place = f"--namespace={namespace}"
        for service in site.read("services", place, f"--selector={chosen}")["items"]:
            name = service["metadata"]["name"]
            slices = site.read("endpointslices", place, f"--selector=kubernetes.io/service-name={name}")
            for each in slices["items"]:
                ports = [port["port"] for port in each["ports"] or () if port["name"] == endpoint["port"]]
                for port, one in ((port, one) for port in ports for one in each["endpoints"]):
                    there = one["targetRef"]["name"]
                    path = f"/api/v1/namespaces/{namespace}/pods/{there}:{port}/proxy/metrics"
                    labels = {"__metrics_path__": path, "pod": there, "instance": f"{there}:{port}"}
                    labels["job"] = service["metadata"]["labels"][monitor["jobLabel"]]
                    yield {"targets": [urlsplit(server).netloc], "labels": labels}


def _credentials(site: Site, folder: Path) -> Json:
    text = site.kubectl("config", "view", "--minify", "--raw", "--flatten", "--output=json")
    config = json.loads(text)
    data = config["users"][0]["user"] | config["clusters"][0]["cluster"]
    files = {}
    for field, name in (
        ("ca_file", "certificate-authority-data"),
        ("cert_file", "client-certificate-data"),
        ("key_file", "client-key-data"),
    ):
        path = folder / field
        path.touch(mode=0o600)
        path.write_bytes(base64.b64decode(data[name]))
        files[field] = str(path)
    return files


def _answer(server: PrometheusServer, query: str) -> list[Json]:
    """Return the series of a query. A query that Prometheus can't parse fails."""
    query = query.replace("$__rate_interval", "1m").replace("$cluster", ".*").replace("$namespace", ".*")
    try:
        with urlopen(f"{server.url}/api/v1/query?{urlencode({'query': query})}") as told:  # noqa: S310 -- loopback
            series: list[Json] = json.load(told)["data"]["result"]
    except HTTPError as error:
        raise AssertionError(f"{query}: {error.read().decode()}") from error
    return series


def test_the_dashboard_and_the_alerts_of_an_installation(
    installed: Site, prometheus: PrometheusServer, cleanup: ExitStack
) -> None:
    cleanup.enter_context(installed.namespace(_NAMESPACE))
    place = f"--namespace={_NAMESPACE}"
    # The increase of a counter begins with its second scraped value.
    ends = [reservation(f"brief-{seconds}", "10m", ttlSeconds=seconds) for seconds in (1, 30)]
    waiting = reservation("late", "1000", pendingDeadlineSeconds=600)
    for each in (*ends, waiting, reservation("web", "10m"), pod("web", "10m"), pod("huge", "1000")):
        body = json.dumps({"apiVersion": "v1", "kind": "Pod"} | each)
        installed.kubectl("create", place, "--filename=-", text=body)
    leading = 'sum(tidelock_ready{job="tidelock"})'
    installed.until("both replicas are scraped", lambda: _answer(prometheus, "count(up == 1) == 2"))
    installed.until("a leader is scraped", lambda: _answer(prometheus, leading)[0]["value"][1] != "0")
    panels = json.loads((_MONITORING / "tidelock.json").read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    (group,) = yaml.safe_load((_MONITORING / "rules.yaml").read_text())["spec"]["groups"]
    alerts = {rule["alert"]: rule["expr"] for rule in group["rules"]}
    expected = [query for query in shown if not _RARE.search(query)]
    installed.until("all panels show something", lambda: not _dark(prometheus, expected))
    firing = [name for name, query in alerts.items() if _answer(prometheus, query)]
    print(f"\n{len(expected)} queries of the dashboard have series")  # noqa: T201 -- the output is the evidence
    for query in _dark(prometheus, [query for query in shown if query not in expected]):
        print(f"  none yet: {query}")  # noqa: T201
    print(f"  {len(alerts)} alerts were evaluated; pending or firing: {firing or 'none'}")  # noqa: T201
    assert not _unknown(prometheus, [*shown, *alerts.values()])
    assert "TidelockAbsent" not in firing


def _dark(server: PrometheusServer, queries: list[str]) -> list[str]:
    """Return the queries that have no series."""
    return [query for query in queries if not _answer(server, query)]


def _unknown(server: PrometheusServer, queries: list[str]) -> set[str]:
    """Return metrics of which Prometheus knows neither series nor a type."""
    with urlopen(f"{server.url}/api/v1/metadata") as told:  # noqa: S310 -- loopback
        known = set(json.load(told)["data"])
    asked = {name for query in queries for name in _METRIC.findall(query)}
    return {name for name in asked if not {name, re.sub("_(bucket|sum|count|total)$", "", name)} & known}
