"""The I/O of a run: its watches, its refusal of writes, and the command as a whole."""

import asyncio
import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from builders import node_json, pod_json
from tidelock.kube.client import PODS, KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.errors import Unreachable
from tidelock.load.source import UseReading
from tidelock.main import main
from tidelock.model.instants import format_instant
from tidelock.running import background
from tidelock.shadow.cluster_watch import ReadOnlyError, Watches, measuring, refuse_writes
from tidelock.shadow.results import ShadowOptions
from unit.cli.server import Answers, failed, listed, serving
from unit.kube.kubeconfigs import write_kubeconfig
from unit.kube.scripted import ScriptedServer, answers

NOW = 1000.0


def reflector(*, lost: Any = None, synced: bool = True, relists: int = 1, silent: float = 0.0) -> Any:
    return SimpleNamespace(
        lost=lost,
        synced=SimpleNamespace(is_set=lambda: synced),
        relists=relists,
        last_activity=time.monotonic() - silent,
    )


def test_live_watches_are_not_lost() -> None:
    watches = Watches([reflector(), reflector()])
    assert watches.lost(NOW) == (None, "")
    assert watches.lost(NOW) == (None, "")


def test_a_lost_watch_is_lost_since_its_last_response() -> None:
    broken = reflector(lost=Unreachable("gone"), silent=20.0)
    since, reason = Watches([reflector(silent=5.0), broken]).lost(NOW)
    assert since == pytest.approx(NOW - 20, abs=1)
    assert reason == "Unreachable"


def test_a_list_that_is_under_way_is_no_response() -> None:
    assert Watches([reflector(synced=False)]).lost(NOW)[1] == "listing"


def test_a_list_between_two_looks_is_a_gap_although_the_watch_is_back() -> None:
    one = reflector()
    watches = Watches([one])
    watches.lost(NOW)
    one.relists += 1
    assert watches.lost(NOW) == (NOW, "listed again after a lost watch")
    assert watches.lost(NOW) == (None, "")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_the_client_of_a_run_sends_no_write(
    method: str, server: ScriptedServer, tmp_path: Path
) -> None:
    connection = load_connection(write_kubeconfig(tmp_path / "kubeconfig", server.url, {}))
    async with KubeClient(connection, user_agent="test", may_write=refuse_writes) as client:
        with pytest.raises(ReadOnlyError):
            await client.request(method, PODS.collection("shop"), body={})
    assert server.asked == []


async def promql(request: web.Request) -> web.StreamResponse:
    """Answer each query of nodes with a quarter, at the time that it asks for, and of pods with nothing."""
    form = await request.post()
    of_nodes = "node_cpu" in str(form["query"]) or "node_memory_MemTotal" in str(form["query"])
    value = [float(str(form["time"])), "0.25"]
    result = [{"metric": {"node": "a"}, "value": value}] if of_nodes else []
    return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


async def test_use_is_read_from_prometheus(server: ScriptedServer) -> None:
    server.replays(*[promql] * 6)
    readings: asyncio.Queue[UseReading] = asyncio.Queue()
    observer: Any = SimpleNamespace(
        begun=1.0, node_names={"a"}, measured=lambda reading, _: readings.put_nowait(reading)
    )
    client: Any = None
    options = ShadowOptions(source=server.url)
    async with measuring(client, observer, options) as work, background(*work):
        reading = await asyncio.wait_for(readings.get(), 60)
    assert (reading.nodes["a"].cpu, reading.nodes["a"].memory) == (25.0, 25.0)


async def test_a_source_that_does_not_answer_is_noted(server: ScriptedServer) -> None:
    server.replays(*[answers("broken", 500)] * 6)
    problems: asyncio.Queue[str] = asyncio.Queue()
    observer: Any = SimpleNamespace(begun=1.0, node_names={"a"}, not_measured=problems.put_nowait)
    client: Any = None
    async with measuring(client, observer, ShadowOptions(source=server.url)) as work, background(*work):
        assert "HTTP 500" in await asyncio.wait_for(problems.get(), 60)


def cluster() -> Answers:
    metrics = {
        "metadata": {"name": "a"},
        "timestamp": format_instant(int(time.time())),
        "usage": {"cpu": "1"},
    }
    return {
        "GET /version": (200, {"gitVersion": "v1.36.3"}),
        "GET /api/v1/nodes": listed(node_json("a")),
        "GET /api/v1/pods": listed(pod_json("old", node_name="a"), pod_json("new")),
        "GET /api/v1/services": failed(403, "Forbidden", "services is forbidden"),
        "GET /apis/metrics.k8s.io/v1beta1/nodes": (200, {"items": [metrics]}),
        "GET /apis/metrics.k8s.io/v1beta1/pods": (200, {"items": []}),
    }


def test_a_run_without_most_resources_ends_with_a_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server answers a watch with a list, in which there is no event."""
    folder = tmp_path / "there"
    with serving(cluster(), tmp_path) as server:
        options = ("--for=2s", "--look-every=100ms", "--metrics-server", f"--output={folder}")
        assert main(["shadow", f"--kubeconfig={server.kubeconfig}", *options]) == 0

    results = json.loads((folder / "report.json").read_text())
    assert {method for method, _, _ in server.asked} == {"GET"}
    assert (results["run"]["nodes"], results["run"]["pods"]) == (1, 1)
    assert results["run"]["version"] == "v1.36.3"
    assert results["run"]["unread"] == ["services"]  # no other resource is served
    assert "taken for empty by plugins" in (folder / "report.html").read_text()
    assert results["run"]["resident_bytes"] > 2**20
    assert results["levels"]["readings"] >= 1
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert f"report.html and report.json are in {folder}" in capsys.readouterr().out


def test_a_report_that_can_not_be_written_ends_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder is in the place of a file, for each report of the run."""
    folder = tmp_path / "there"
    (folder / "report.json").mkdir(parents=True)
    with serving(cluster(), tmp_path) as server:
        options = ("--for=2s", "--look-every=100ms", "--report-every=200ms", f"--output={folder}")
        assert main(["shadow", f"--kubeconfig={server.kubeconfig}", *options]) == 1

    told = capsys.readouterr()
    assert "RACES FOR THE SAME CAPACITY" in told.out
    assert "the report was not written" in told.err
    assert "report.html and report.json" not in told.out
    assert told.err.splitlines()[-1].startswith("tidelock: [Errno 21] Is a directory")


def test_a_run_that_may_not_list_pods_ends_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusing = cluster() | {"GET /api/v1/pods": failed(403, "Forbidden", "pods is forbidden")}
    with serving(refusing, tmp_path) as server:
        arguments = ("--for=2s", f"--output={tmp_path / 'report'}")
        assert main(["shadow", f"--kubeconfig={server.kubeconfig}", *arguments]) == 1
    assert capsys.readouterr().err == "tidelock: 403 Forbidden: pods is forbidden\n"


def test_a_run_that_never_knew_the_cluster_has_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    half = cluster() | {"GET /api/v1/persistentvolumes": failed(500, "InternalError", "broken")}
    with serving(half, tmp_path) as server:
        arguments = ("--for=1s", f"--output={tmp_path / 'report'}")
        assert main(["shadow", f"--kubeconfig={server.kubeconfig}", *arguments]) == 1
    assert "the run ended before" in capsys.readouterr().err
