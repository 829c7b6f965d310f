"""The past of a cluster in a real Prometheus, which the simulator repeats.

It needs no behaviour of the API server, but a real Prometheus.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.prometheus import PrometheusServer
from replay.openmetrics import series_of, write_blocks
from tidelock.main import main
from tidelock.simulation.engine import Run, Simulation
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.results import figures
from tidelock.simulation.world import STEP, SimulatedWorld
from tidelock.simulation.worlds import STEPS_A_DAY, LoadShape, Setting, synthetic_load, world_of

DAYS = 2
SCRAPE = 100  # seconds
SEED = 2


@pytest.fixture(scope="module")
def past() -> tuple[SimulatedWorld, Run]:
    """Return a small cluster of two days, as the default profile placed its pods."""
    setting = Setting(
        nodes=3,
        cores=(8,),
        workloads=8,
        steps=DAYS * STEPS_A_DAY,
        fill=0.55,
        life=8 * 3600.0,
        noise=0.3,
        sizes=(500, 1000),
    )
    load = synthetic_load(30, setting.steps, SEED, LoadShape(mean=0.2))
    world = world_of("past", load, setting, SEED)
    return world, Simulation(world, POLICIES["default"]).run()


@pytest.fixture(scope="module")
def prometheus(
    past: tuple[SimulatedWorld, Run], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusServer]:
    """Run a server that has recorded the cluster until now."""
    folder = tmp_path_factory.mktemp("prometheus")
    world, run = past
    end = int(time.time() // STEP * STEP)
    lines = series_of(world, run, end - round(world.steps * STEP), SCRAPE, more=2 * round(STEP))
    write_blocks(lines, folder / "data")
    with PrometheusServer(folder, []) as server:
        yield server


def test_the_past_is_simulated_as_it_was(
    past: tuple[SimulatedWorld, Run], prometheus: PrometheusServer, tmp_path: Path
) -> None:
    """The deviation of the past is that of the original, and that of the same policy is near it.

    With few nodes, a pod that arrives a second later can change all that follows. So policies have no exact
    result to compare with.
    """
    world, run = past
    file = tmp_path / "past.json"

    options = ("--days", str(DAYS), "--policies", "default,shipped", "--json", str(file))
    assert main(["simulate", "--from-prometheus", prometheus.url, *options]) == 0

    told = json.loads(file.read_text())
    assert told["world"]["nodes"] == len(world.machines)
    assert told["world"]["pods"] == pytest.approx(world.pods, abs=0.02 * world.pods)
    truth = figures(run)
    found = told["policies"]
    assert found["as it was"]["spread"] == pytest.approx(truth.spread, rel=0.03)
    assert found["as it was"]["mean"] == pytest.approx(truth.mean, rel=0.03)
    assert found["default"]["spread"] == pytest.approx(truth.spread, rel=0.15)
    assert {*found} == {"as it was", "default", "shipped"}


def test_a_missing_metric_is_named_with_its_program(
    prometheus: PrometheusServer, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--days", "1", "--matchers", 'cluster="other"')
    assert main(["simulate", "--from-prometheus", prometheus.url, *options]) == 1

    problem = capsys.readouterr().err.splitlines()[-1]
    assert "has no present series of kube_node_status_allocatable, kube_pod_info" in problem
    assert "install kube-state-metrics" in problem
    assert "container_cpu_usage_seconds_total" in problem
