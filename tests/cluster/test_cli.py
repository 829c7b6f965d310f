"""kubectl tidelock on a real cluster, run by kubectl as its plugin, beside an elected operator.

It needs an API server that serves kubectl, watches and deletions with a precondition.
"""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.api import Api
from cluster.leases import forget_lease
from cluster.live import condition
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.binaries import find_binaries
from tidelock.cli.installation_checks import POLICY_BINDINGS
from tidelock.kube.client import RESERVATIONQUOTES, RESERVATIONS

PLUGIN = Path(sys.executable).with_name("kubectl-tidelock")


@dataclass(frozen=True)
class Done:
    """The output of a command, and its exit status."""

    status: int
    out: str
    err: str


@dataclass
class Terminal:
    """A command that runs on a terminal, and its output."""

    process: subprocess.Popen[bytes]
    ours: int
    written: str = ""

    def until(self, text: str) -> None:
        """Wait until the command has written this text."""
        self._read(lambda: text in self.written, text)

    def press(self, key: str) -> int:
        """Press the key that ends the command, and return its exit status."""
        os.write(self.ours, key.encode())
        self._read(lambda: self.process.poll() is not None, "end")
        return self.process.wait()

    def interrupt(self) -> int:
        """Send the signal of Ctrl-C, and return the exit status."""
        self.process.send_signal(signal.SIGINT)
        self._read(lambda: self.process.poll() is not None, "end")
        return self.process.wait()

    def _read(self, enough: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + 100
        while not enough():
            assert time.monotonic() < deadline, f"no {what} after {self.written}"
            if select.select([self.ours], [], [], 0.1)[0]:
                self.written += os.read(self.ours, 65536).decode(errors="replace")


@dataclass(frozen=True)
class Plugin:
    """A runner of kubectl tidelock in one namespace."""

    kubeconfig: Path
    namespace: str

    def __call__(self, *arguments: str, stdin: str = "") -> Done:
        done = subprocess.run(
            self._words(*arguments),
            input=stdin,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def on_terminal(self, *arguments: str) -> Iterator[Terminal]:
        """Run a command on its own terminal, with enough rows for every test."""
        ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (500, 150))
        try:
            with subprocess.Popen(
                self._words(*arguments), stdin=theirs, stdout=theirs, stderr=theirs, env=self._environment
            ) as process:
                try:
                    yield Terminal(process, ours)
                finally:
                    process.kill()
        finally:
            os.close(ours)
            os.close(theirs)

    def _words(self, *arguments: str) -> list[str]:
        return [str(find_binaries().programs["kubectl"]), "tidelock", *arguments]

    @property
    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join((str(PLUGIN.parent), os.environ["PATH"]))
        return os.environ | {"PATH": path, "KUBECONFIG": str(self.kubeconfig), "NO_COLOR": "1"}

    def here(self, command: str, *arguments: str, stdin: str = "") -> Done:
        """Run a command about this namespace."""
        return self(command, "-n", self.namespace, *arguments, stdin=stdin)


@pytest.fixture(scope="module")
def leader(
    private_cluster: LocalCluster, private_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """Run the operator with leader election, because `check` reads the Lease."""
    folder = tmp_path_factory.mktemp("leader")
    with OperatorProcess(private_kubeconfig, folder, "--leader-elect") as process:
        yield process
    forget_lease(Api(private_cluster.kubeconfig))


@pytest.fixture
def plugin(private_cluster: LocalCluster, private_world: World) -> Plugin:
    return Plugin(private_cluster.kubeconfig, private_world.namespace)


def test_reserve_status_and_why_show_a_reservation_and_a_pod_that_it_blocks(
    leader: OperatorProcess, private_world: World, plugin: Plugin
) -> None:
    node = private_world.node(cpu="4")
    on_node = ("--node", node.name, "-r")

    held = plugin.here("reserve", "web-0", *on_node, "cpu=3", "--ttl", "1h")
    assert held.status == 0, held.err
    assert held.out.startswith(f"reservation/web-0 Active: holds cpu=3 on {node.name} until 2")

    private_world.pod("large", "3").until_refused("reserved by")

    refused = plugin.here("reserve", "web-1", *on_node, "cpu=2", "--deadline", "0s")
    assert refused.status == 1
    assert "cpu 2 needed, 1 free, 3 reserved by" in refused.out

    status = plugin.here("status")
    assert status.status == 0
    assert {tuple(line.split()[:2]) for line in status.out.splitlines()[1:3]} == {
        ("web-0", "Active"),
        ("web-1", "Rejected"),
    }

    why = plugin.here("why", "pod/large", "-o", "json")
    told: dict[str, Any] = json.loads(why.out)
    (mine,) = [each for each in told["nodes"] if each["name"] == node.name]
    assert mine["locks"] == {f"{private_world.namespace}/web-0": {"cpu": "3"}}
    objections = {each["plugin"]: each["numbers"] for each in mine["objections"]}
    assert objections == {
        "Reservation": f"cpu 3 needed, 1 free, 3 reserved by {private_world.namespace}/web-0"
    }


def test_a_waiting_reservation_gets_an_event_and_ctrl_c_deletes_it(
    leader: OperatorProcess, private_world: World, plugin: Plugin
) -> None:
    node = private_world.node(cpu="4")
    words = ("-n", private_world.namespace, "large", "--node", node.name, "-r", "cpu=9", "--deadline", "10m")
    with plugin.on_terminal("reserve", *words) as terminal:
        terminal.until("InsufficientCapacity")
        large = private_world.member("large")
        wait_for(
            lambda: private_world.event_reasons(large),
            until={"InsufficientCapacity"}.issubset,
            what="the event",
        )
        assert terminal.interrupt() == 130
        assert "reservation/large is deleted" in terminal.written
    assert not private_world.api.get(RESERVATIONS.collection(private_world.namespace))["items"]


def test_quote_prints_the_answer_and_leaves_no_object(
    leader: OperatorProcess, private_world: World, plugin: Plugin
) -> None:
    node = private_world.node(cpu="4")
    room = ("quote", "--node", node.name, "-r")

    fits = plugin.here(*room, "cpu=1")
    assert fits.status == 0, fits.err
    assert fits.out.splitlines()[1].split()[:4] == ["cpu=1", "now", node.name, "4"]

    private_world.active_reservation("web-0", "3", node)
    refused = plugin.here(*room, "cpu=2")
    assert refused.status == 1
    assert f"cpu=2: {node.name} lacks cpu=1\n" in refused.out
    assert f"cpu=2: reservation {private_world.namespace}/web-0 has cpu=3 there until 2" in refused.out

    reservation = private_world.manifest("web-1", "2", node)
    of_file = plugin("quote", "-f", "-", "-o", "json", stdin=yaml.safe_dump(reservation))
    (told,) = json.loads(of_file.out)
    assert (told["asked"], told["feasible"], told["status"]["count"]) == ("web-1", False, 0)
    assert not private_world.api.get(RESERVATIONQUOTES.collection(private_world.namespace))["items"]


def test_a_two_phase_reservation_is_committed_only_by_its_token(
    leader: OperatorProcess, private_world: World, plugin: Plugin
) -> None:
    node = private_world.node(cpu="4")
    on_node = ("--node", node.name, "-r", "cpu=1", "--ttl", "1h")

    held = plugin.here("reserve", "web-0", *on_node, "--commit-within", "10m")
    assert held.status == 0, held.err
    reservation = private_world.member("web-0")
    token = reservation.status()["commit"]["token"]
    assert f"with the token {token}" in held.out

    other = plugin.here("commit", "web-0", "--token", f"{token}-of-another")
    assert other.status == 1
    assert "not committed, TokenMismatch" in other.out
    assert condition(reservation.status(), "Committed")["status"] == "False"

    done = plugin.here("commit", "web-0")
    assert done.status == 0, done.err
    assert (
        done.out
        == f"reservation/web-0 Active: committed, it holds until {reservation.status()['expiresAt']}\n"
    )
    assert condition(reservation.status(), "Committed")["status"] == "True"
    again = plugin.here("commit", "web-0", "-o", "json")
    assert again.status == 0, again.err
    assert json.loads(again.out)["status"]["commit"]["token"] == token

    assert plugin.here("reserve", "web-1", *on_node).status == 0
    for name, why in (("web-1", "has no two-phase commit"), ("web-2", "it has ended, or was never created")):
        refused = plugin.here("commit", name)
        assert refused.status == 1
        assert why in refused.err


def test_top_shows_the_cluster_live_on_a_terminal(private_world: World, plugin: Plugin) -> None:
    there = private_world.node("there")
    with plugin.on_terminal("top") as terminal:
        terminal.until(there.name)
        late = private_world.node("late")
        terminal.until(late.name)
        assert terminal.press("q") == 0


def test_simulate_prints_the_outcomes_and_writes_no_object(
    leader: OperatorProcess, private_world: World, plugin: Plugin
) -> None:
    node = private_world.node(cpu="4")
    reservation = private_world.manifest("web-0", "3", node)
    late = private_world.manifest("web-1", "2", node)

    told = plugin("simulate", "-f", "-", "-o", "json", stdin=yaml.safe_dump_all([reservation, late]))

    assert told.status == 1, told.err
    outcomes = [(each["outcome"], each["node"]) for each in json.loads(told.out)["outcomes"]]
    assert outcomes == [("Active", node.name), ("Pending", "")]
    assert not private_world.api.get(RESERVATIONS.collection(private_world.namespace))["items"]


def test_lint_reports_violations_of_types_and_of_validation_rules(
    private_world: World, plugin: Plugin
) -> None:
    by_type, by_rule = (private_world.manifest(name) for name in ("by-type", "by-rule"))
    by_type["spec"]["ttlSeconds"] = 0
    by_rule["spec"]["expireAt"] = "2030-01-01T00:00:00Z"

    told = plugin("lint", "-f", "-", stdin=yaml.safe_dump_all([by_type, by_rule]))

    assert told.status == 1
    assert "spec.ttlSeconds: Invalid value: 0: should be greater than or equal to 1" in told.out
    assert "spec.expireAt: Forbidden: exactly one of ttlSeconds and expireAt is required" in told.out


def test_a_second_operator_is_seen_by_check_and_by_each_operator(
    leader: OperatorProcess,
    private_cluster: LocalCluster,
    private_world: World,
    plugin: Plugin,
    tmp_path: Path,
) -> None:
    """Operators with Leases in different namespaces led side by side, and nothing said so."""
    private_world.active_reservation(node=private_world.node())  # now the operator leads
    election = ("--leader-elect", f"--lease-namespace={private_world.namespace}")

    def others(operator: OperatorProcess) -> float:
        return operator.metrics()["tidelock_other_leaders"]

    with OperatorProcess(private_cluster.kubeconfig, tmp_path, *election) as second:
        for operator in (leader, second):
            wait_for(partial(others, operator), until=lambda seen: seen == 1, what="the other to be seen")
        assert f"by Lease {private_world.namespace}/tidelock" in leader.log
        assert "by Lease tidelock-system/tidelock" in second.log
        told = {each["matter"]: each for each in json.loads(plugin("check", "-o", "json").out)}
        assert told["Lease"]["level"] == "ok"
        assert told["leaders"]["level"] == "wrong"
        assert f"by Lease {private_world.namespace}/tidelock" in told["leaders"]["found"]
        assert second.stop() == 0
    wait_for(partial(others, leader), until=lambda seen: seen == 0, what="the other to be gone")


def test_check_passes_on_a_healthy_cluster_and_fails_without_an_operator(
    leader: OperatorProcess, private_world: World, plugin: Plugin
) -> None:
    private_world.active_reservation(node=private_world.node())  # now the operator leads

    green = plugin("check", "-o", "json")
    levels = {each["matter"]: each["level"] for each in json.loads(green.out)}
    assert levels.pop("admission") == levels.pop("answers") == "note"  # without manifests/components/extender
    assert set(levels.values()) == {"ok"}, green.out
    assert green.status == 0

    item = POLICY_BINDINGS.item("tidelock-status-writers")
    policy = private_world.admin.get(item)
    private_world.admin.delete(item)
    try:
        told = {each["matter"]: each for each in json.loads(plugin("check", "-o", "json").out)}
        assert told["statuses"]["level"] == "note"
        assert "tidelock-status-writers is missing" in told["statuses"]["found"]
    finally:
        meta = {"name": policy["metadata"]["name"]}
        private_world.admin.create(POLICY_BINDINGS.collection(), policy | {"metadata": meta})

    assert leader.stop() == 0
    red = plugin("check")
    assert red.status == 1
    assert "no process holds Lease tidelock-system/tidelock: no operator runs" in red.out
