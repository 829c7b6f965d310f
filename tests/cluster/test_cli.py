"""kubectl tidelock on a real cluster, run by kubectl as its plugin, beside an operator that leads."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.api import Api
from cluster.leases import forget_lease
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import LocalCluster
from devcluster.binaries import find_binaries
from tidelock.kube.client import RESERVATIONS, WATERLEVELS

PLUGIN = Path(sys.executable).with_name("kubectl-tidelock")


@dataclass(frozen=True)
class Done:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Plugin:
    """Runs kubectl tidelock in one namespace."""

    kubeconfig: Path
    namespace: str

    def __call__(self, *arguments: str, stdin: str = "") -> Done:
        path = os.pathsep.join((str(PLUGIN.parent), os.environ["PATH"]))
        done = subprocess.run(
            [find_binaries().programs["kubectl"], "tidelock", *arguments],
            input=stdin,
            env=os.environ | {"PATH": path, "KUBECONFIG": str(self.kubeconfig), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def here(self, command: str, *arguments: str, stdin: str = "") -> Done:
        """Run a command about this namespace."""
        return self(command, "-n", self.namespace, *arguments, stdin=stdin)


@pytest.fixture(scope="module")
def leader(
    private_cluster: LocalCluster, private_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OperatorProcess]:
    """The operator, elected: `check` looks at the Lease."""
    folder = tmp_path_factory.mktemp("leader")
    with OperatorProcess(private_kubeconfig, folder, "--leader-elect") as process:
        yield process
    forget_lease(Api(private_cluster.kubeconfig))


@pytest.fixture
def plugin(private_cluster: LocalCluster, private_world: World) -> Plugin:
    return Plugin(private_cluster.kubeconfig, private_world.namespace)


def test_a_lock_from_its_wish_to_the_question_of_who_is_in_the_way(
    leader: OperatorProcess, private_world: World, plugin: Plugin
) -> None:
    node = private_world.node(cpu="4")
    on_node = ("--node", node.name, "-r")

    held = plugin.here("reserve", "web-0", *on_node, "cpu=3", "--ttl", "1h")
    assert held.status == 0, held.err
    assert held.out.startswith(f"reservation/web-0 Active: holds cpu=3 on {node.name} until 2")

    private_world.pod("large", "3").until_refused("locked by")

    refused = plugin.here("reserve", "web-1", *on_node, "cpu=2", "--deadline", "0s")
    assert refused.status == 1
    assert "cpu 2 needed, 1 free, 3 locked by" in refused.out

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
    assert objections == {"Reservation": f"cpu 3 needed, 1 free, 3 locked by {private_world.namespace}/web-0"}


def test_what_would_happen_is_told_and_nothing_is_written(
    leader: OperatorProcess, private_world: World, plugin: Plugin
) -> None:
    node = private_world.node(cpu="4")
    lock = private_world.reservation("web-0", "3", node)
    late = private_world.reservation("web-1", "2", node)

    told = plugin("simulate", "-f", "-", "-o", "json", stdin=yaml.safe_dump_all([lock, late]))

    assert told.status == 1, told.err
    outcomes = [(each["outcome"], each["node"]) for each in json.loads(told.out)["outcomes"]]
    assert outcomes == [("Active", node.name), ("Pending", "")]
    assert not private_world.api.get(RESERVATIONS.collection(private_world.namespace))["items"]


def test_a_bad_file_is_refused_by_types_and_by_the_rules_of_the_api_server(
    private_world: World, plugin: Plugin
) -> None:
    by_type, by_rule = (private_world.reservation(name) for name in ("by-type", "by-rule"))
    by_type["spec"]["ttlSeconds"] = 0
    by_rule["spec"]["expireAt"] = "2030-01-01T00:00:00Z"

    told = plugin("lint", "-f", "-", stdin=yaml.safe_dump_all([by_type, by_rule]))

    assert told.status == 1
    assert "spec.ttlSeconds: Invalid value: 0: should be greater than or equal to 1" in told.out
    assert "exactly one of expireAt and ttlSeconds is required" in told.out


def test_a_healthy_cluster_is_green_and_one_without_an_operator_is_not(
    leader: OperatorProcess, private_world: World, plugin: Plugin
) -> None:
    private_world.api.delete(WATERLEVELS.collection())  # those of other tests, whose Prometheus is gone
    private_world.active_lock(node=private_world.node())  # by now it leads

    green = plugin("check", "-o", "json")
    levels = {each["matter"]: each["level"] for each in json.loads(green.out)}
    assert levels.pop("admission") == "note"  # manifests/overlays/extender is not installed
    assert set(levels.values()) == {"ok"}, green.out
    assert green.status == 0

    assert leader.stop() == 0
    red = plugin("check")
    assert red.status == 1
    assert "nobody holds Lease tidelock-system/tidelock: no operator runs" in red.out
