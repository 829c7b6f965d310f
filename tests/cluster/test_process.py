"""The operator as a process: its start, its end, its logs and its metrics.

It needs an API server that serves all lists and watches of a start.
"""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from cluster.api import Api
from cluster.leases import LEASE, forget_lease
from cluster.operator_process import COMMAND, Launch, OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import SYSTEM_NAMESPACE
from devcluster.loopback import HOST, Health
from tidelock.model.instants import parse_instant

# The command, run by a user without a line in /etc/passwd, as that of an image is on OpenShift.
_NAMELESS = """\
#!{python}
import os, sys
os.getuid = os.geteuid = lambda: 1_000_680_000
for variable in ("USER", "LOGNAME", "LNAME", "USERNAME", "HOME"):
    os.environ.pop(variable, None)
from tidelock.main import main
sys.exit(main())
"""
_LED = 8  # seconds of one leadership, of which Kopf needs five to count as working


@pytest.fixture
def launch(private_kubeconfig: Path, tmp_path: Path) -> Iterator[Launch]:
    """Yield a function that starts the installed command, because the tests are about its start and end."""
    with ExitStack() as running:
        yield lambda *options: running.enter_context(
            OperatorProcess(private_kubeconfig, tmp_path, *options, command=COMMAND)
        )


@pytest.fixture
def nameless(tmp_path: Path) -> Path:
    """Return a command that runs the operator as a user without a name."""
    command = tmp_path / "tidelock"
    command.write_text(_NAMELESS.format(python=sys.executable))
    command.chmod(0o755)
    return command


@pytest.fixture
def api(private_cluster: LocalCluster) -> Iterator[Api]:
    """Yield the API as an admin, and delete the Lease after the test."""
    made = Api(private_cluster.kubeconfig)
    yield made
    forget_lease(made)


def failure(*options: str) -> str:
    """Run an operator that must end at once with status 1, and return its error output."""
    done = subprocess.run(
        [COMMAND, "run", *options], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 1, done.stderr
    assert not done.stdout
    return done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_the_operator_stops_cleanly_on_a_signal(
    launch: Launch, private_world: World, number: signal.Signals
) -> None:
    operator = launch()
    reservation = private_world.active_reservation(node=private_world.node())
    assert operator.stop(number) == 0
    assert "Traceback" not in operator.log
    assert operator.log.splitlines()[-1].endswith("stopping")
    assert reservation.status()["phase"] == "Active"


def test_the_operator_stops_cleanly_while_it_waits_for_the_api_server(
    private_cluster: LocalCluster, private_kubeconfig: Path, tmp_path: Path
) -> None:
    operator = OperatorProcess(private_kubeconfig, tmp_path, command=COMMAND)
    probes = {path: Health(operator.port, path, None) for path in ("/healthz", "/readyz")}
    private_cluster.apiserver.stop()
    try:
        operator.start()
        wait_for(probes["/healthz"].ok, what="the probes to answer")
        assert not probes["/readyz"].ok()
        assert operator.stop() == 0
        operator.start()
        wait_for(probes["/healthz"].ok, what="the probes to answer")
    finally:
        private_cluster.apiserver.start()
    operator.ready()
    assert operator.stop() == 0


def test_the_operator_leads_as_a_user_without_a_name(
    api: Api, nameless: Path, private_kubeconfig: Path, tmp_path: Path
) -> None:
    """The image's user had no line in /etc/passwd, where Kopf looked up its name.

    The operator ended a second after it had begun to lead. A standby was ready until then, so a roll-out
    succeeded and left no operator that worked.
    """
    election = ("--leader-elect", f"--lease-namespace={SYSTEM_NAMESPACE}")

    def lease() -> dict[str, Any]:
        spec: dict[str, Any] = api.get(LEASE)["spec"]
        return spec

    def led() -> float:
        spec = lease()
        return parse_instant(spec["renewTime"]) - parse_instant(spec["acquireTime"])

    with OperatorProcess(private_kubeconfig, tmp_path, *election, command=nameless) as operator:
        first = lease()["leaseTransitions"]
        wait_for(lambda: led() >= _LED or not operator.running, what="the operator to lead for a while")
        assert operator.running, operator.log
        assert lease()["leaseTransitions"] == first
        # Kopf starts after the first decision, and imports its modules then.
        wait_for(
            lambda: operator.metrics().get('tidelock_kopf_up{resource="waterlevels"}') == 1,
            what="Kopf to work",
        )
        assert operator.stop() == 0
    assert "Traceback" not in operator.log


def test_a_missing_kubeconfig_is_reported_as_one_line_of_text(tmp_path: Path) -> None:
    (line,) = failure(f"--kubeconfig={tmp_path / 'absent'}").splitlines()
    assert line.startswith("tidelock: ")
    assert str(tmp_path / "absent") in line


def test_a_port_in_use_is_reported_as_one_line_of_text(launch: Launch, private_kubeconfig: Path) -> None:
    port = launch().port
    (line,) = failure(f"--kubeconfig={private_kubeconfig}", f"--listen={HOST}", f"--port={port}").splitlines()
    assert line.startswith("tidelock: ")
    assert str(port) in line


def test_json_logs_have_one_object_on_each_line(launch: Launch, private_world: World) -> None:
    operator = launch("--log-format=json", "--log-level=debug")
    private_world.active_reservation(node=private_world.node())
    private_world.pod().until_bound()
    assert operator.stop() == 0
    lines = [json.loads(line) for line in operator.log.splitlines()]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert {"started", "stopping"} <= {line["message"] for line in lines}


def test_the_metrics_count_reservations_and_their_amounts(launch: Launch, private_world: World) -> None:
    operator = launch()
    node = private_world.node(cpu="4")
    reservation = private_world.active_reservation(cpu="1500m", node=node)
    private_world.pod("other", cpu="2").until_bound()
    scheduled = 'scheduler_schedule_attempts_total{profile="tidelock-scheduler",result="scheduled"}'
    # The operator can learn of the binding later than this test.
    metrics = wait_for(operator.metrics, until=lambda seen: seen.get(scheduled) == 1, what="the pod to count")
    assert metrics['tidelock_reservations{phase="Active"}'] == 1
    assert metrics['tidelock_locked{resource="cpu"}'] == 1.5
    assert metrics['tidelock_allocatable{resource="cpu"}'] == 4
    assert metrics['tidelock_requested{resource="cpu"}'] == 2
    assert metrics["tidelock_ready"] == 1

    reservation.delete()
    wait_for(lambda: operator.metrics()['tidelock_locked{resource="cpu"}'] == 0, what="the room to be free")
