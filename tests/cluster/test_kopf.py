"""A failure of Kopf stops no decision, and Kopf recovers when the cause is gone.

It needs an API server that ends watches of a kind that is removed or may not be read, and serves it again.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from cluster.crds import SAMPLES, install_crds
from cluster.live import Live, condition
from cluster.operator_process import Launch, OperatorProcess
from cluster.relay import Record, Right, relay, through
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import operator_kubeconfig
from devcluster.loopback import HOST
from tidelock.kube.client import (
    RESERVATIONS,
    RESERVATIONSCHEDULES,
    WATERLEVELS,
    ApiResource,
)
from tidelock.kube.config import load_connection

KINDS = pytest.mark.parametrize(
    "kind", [RESERVATIONS, RESERVATIONSCHEDULES, WATERLEVELS], ids=lambda kind: kind.plural
)
UP = 'tidelock_kopf_up{resource="waterlevels"}'


@contextmanager
def deleted(cluster: LocalCluster, kind: ApiResource) -> Iterator[None]:
    """Delete the CustomResourceDefinition of a kind, with all objects of the kind, for a while."""
    try:
        cluster.kubectl("delete", "crd", f"{kind.plural}.{kind.group}", "--wait")
        yield
    finally:
        install_crds(cluster)


@contextmanager
def withheld(cluster: LocalCluster, kind: ApiResource, directory: Path) -> Iterator[None]:
    """Remove the operator's rights on a kind for a while."""
    role = json.loads(cluster.kubectl("get", "clusterrole", "tidelock", "-o", "json"))
    rules = [rule for rule in role["rules"] if kind.plural not in rule["resources"]]
    assert len(rules) < len(role["rules"])
    patch = json.dumps({"rules": rules})
    try:
        cluster.kubectl("patch", "clusterrole", "tidelock", "--type=merge", f"--patch={patch}")
        yield
    finally:
        operator_kubeconfig(cluster, directory)


def until(operator: OperatorProcess, holds: Callable[[], object], what: str) -> None:
    """Wait for an effect of the operator, which must not end meanwhile."""
    wait_for(lambda: holds() or not operator.running, what=what)
    assert operator.running, f"the operator ended:\n{operator.log}"


def until_kopf(operator: OperatorProcess, *, up: bool) -> None:
    until(operator, lambda: operator.metrics()[UP] == up, f"Kopf to {'work' if up else 'fail'}")


def details(operator: OperatorProcess) -> list[str]:
    with urlopen(f"http://{HOST}:{operator.port}/readyz?verbose", timeout=60) as answer:
        lines: list[str] = answer.read().decode().splitlines()
    return lines


def is_decided(operator: OperatorProcess, world: World, name: str) -> None:
    """Check that a new pod is bound."""
    pod = world.pod(name, "100m")
    until(operator, lambda: (pod.read() or {})["spec"].get("nodeName"), f"{name} to be bound")


def is_granted(operator: OperatorProcess, world: World, name: str) -> None:
    """Check that a new reservation becomes active."""
    reservation = world.reservation(name, "100m")
    until(
        operator,
        lambda: (reservation.read() or {}).get("status", {}).get("phase") == "Active",
        f"{name} to hold",
    )


def is_handled(operator: OperatorProcess, world: World) -> Live:
    """Check that WaterLevels are handled, by the condition of one with a source that refuses."""
    manifest = yaml.safe_load((SAMPLES / "waterlevel.yaml").read_text())
    manifest["metadata"]["name"] = world.namespace
    manifest["spec"]["source"] = {"metricsServer": {}}
    level = Live(world.api, WATERLEVELS, world.api.create(WATERLEVELS.collection(), manifest))
    seen = partial(_reason_of, level)
    until(operator, lambda: seen() == "SourceRefused", f"the WaterLevel to be handled, and not {seen()}")
    return level


def _reason_of(level: Live) -> str | None:
    return condition((level.read() or {}).get("status", {}), "Ready").get("reason")


@pytest.fixture
def world(private_world: World) -> World:
    private_world.node()
    return private_world


@KINDS
def test_the_operator_survives_the_deletion_of_a_kind(
    private_cluster: LocalCluster, launch: Launch, world: World, kind: ApiResource
) -> None:
    """The process ended with a traceback 5 to 66 seconds after a kind was deleted, because Kopf did."""
    operator = launch()
    until_kopf(operator, up=True)
    with deleted(private_cluster, kind):
        watch = f"[-]watch/{kind.plural} failed: NotFound"
        until(operator, lambda: watch in details(operator), "the loss to be told")
        if kind is WATERLEVELS:
            until_kopf(operator, up=False)
            assert "[-]kopf/waterlevels failed: NotFound" in details(operator)
        is_decided(operator, world, "meanwhile")

    is_granted(operator, world, "afterwards")
    is_handled(operator, world)
    until_kopf(operator, up=True)
    until(operator, lambda: not any(line.startswith("[-]") for line in details(operator)), "all to work")
    assert details(operator)[-1] == "readyz check passed"
    assert "Traceback" not in operator.log


@pytest.mark.parametrize("kind", [RESERVATIONSCHEDULES, WATERLEVELS], ids=lambda kind: kind.plural)
def test_the_operator_survives_the_loss_of_a_right(
    private_cluster: LocalCluster, launch: Launch, world: World, tmp_path: Path, kind: ApiResource
) -> None:
    """The process ended with a traceback half a minute after it had lost the right to watch one kind."""
    operator = launch()
    until_kopf(operator, up=True)
    with withheld(private_cluster, kind, tmp_path):
        private_cluster.apiserver.stop()  # because an open watch outlives the right to open it
        private_cluster.apiserver.start()
        watch = f"[-]watch/{kind.plural} failed: Forbidden"
        until(operator, lambda: watch in details(operator), "the loss to be told")
        if kind is WATERLEVELS:
            until_kopf(operator, up=False)
        is_decided(operator, world, "meanwhile")
        is_granted(operator, world, "lock-meanwhile")

    is_handled(operator, world)
    until_kopf(operator, up=True)
    assert "Traceback" not in operator.log


def test_decisions_do_not_wait_for_the_right_to_read_waterlevels(
    private_cluster: LocalCluster, launch: Launch, world: World, tmp_path: Path
) -> None:
    with withheld(private_cluster, WATERLEVELS, tmp_path):
        operator = launch()
        is_granted(operator, world, "meanwhile")
        assert "[-]kopf/waterlevels failed: NotStarted" in details(operator) or operator.metrics()[UP] == 0
    is_handled(operator, world)
    assert "Traceback" not in operator.log


def test_decisions_do_not_wait_for_the_crd_of_waterlevels(
    private_cluster: LocalCluster, launch: Launch, world: World
) -> None:
    """Without the CRD of WaterLevels the operator was never ready, and made no decision."""
    with deleted(private_cluster, WATERLEVELS):
        operator = launch()
        is_granted(operator, world, "meanwhile")
        until(
            operator,
            lambda: "[-]kopf/waterlevels failed: NotFound" in details(operator),
            "Kopf to miss its kind",
        )
    is_handled(operator, world)
    until_kopf(operator, up=True)
    assert "Traceback" not in operator.log


@pytest.fixture
def relayed(private_cluster: LocalCluster, tmp_path: Path) -> Iterator[tuple[OperatorProcess, Record]]:
    """Run an operator behind a relay, and yield it with the relay's record."""
    kubeconfig = operator_kubeconfig(private_cluster, tmp_path)
    connection = load_connection(kubeconfig)
    with ExitStack() as stack:
        url, record = stack.enter_context(relay(connection.server, connection.ssl_context()))
        yield stack.enter_context(OperatorProcess(through(kubeconfig, url), tmp_path)), record


def test_the_operator_survives_error_events_of_a_watch(
    relayed: tuple[OperatorProcess, Record], world: World
) -> None:
    """Any ERROR event of a Kopf watch except 410 ended the process with a traceback.

    Kopf also does not report objects that were deleted meanwhile. So a deleted WaterLevel was still measured.
    """
    operator, record = relayed
    level = is_handled(operator, world)
    measured = f'tidelock_water_level_by_requests{{waterlevel="{level.name}"}}'
    failures = 'tidelock_kopf_failures_total{reason="Watching",resource="waterlevels"}'
    until(operator, lambda: measured in operator.metrics(), "the WaterLevel to be measured")
    until_kopf(operator, up=True)

    record.fail.add(Right("watch", "waterlevels.tidelock.dev"))
    level.merge({"metadata": {"annotations": {"test": "an event"}}})
    until(operator, lambda: operator.metrics().get(failures, 0) >= 2, "Kopf to fail twice")
    is_decided(operator, world, "meanwhile")
    is_granted(operator, world, "lock-meanwhile")
    level.delete()
    until(operator, lambda: measured not in operator.metrics(), "the WaterLevel to be forgotten")
    assert operator.log.count("Kopf has failed") == 1

    record.fail.clear()
    is_handled(operator, world)
    until_kopf(operator, up=True)
    assert operator.log.count("Kopf works again") == 1
    assert "Traceback" not in operator.log
