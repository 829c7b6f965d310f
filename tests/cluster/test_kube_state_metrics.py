"""The samples of kube-state-metrics for Reservations and WaterLevels, with its configuration and role.

It needs an API server that serves custom resources to kube-state-metrics.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from cluster.world import World
from devcluster import Component, LocalCluster, wait_for
from devcluster.identity import token_kubeconfig
from devcluster.loopback import HOST, Health, free_ports
from devcluster.reaper import kept
from devcluster.tools import find_program
from replay.manifests import water_level_manifest
from tidelock.kube.client import WATERLEVELS
from tidelock.model.api.reservation import Phase

MONITORING = Path(__file__).resolve().parents[2] / "manifests" / "monitoring"
CONFIGURATION = MONITORING / "kube-state-metrics.yaml"
ROLE = MONITORING / "kube-state-metrics-role.yaml"
ACCOUNT = "kube-state-metrics"
ADDED = {"customresource_group", "customresource_kind", "customresource_version"}
SINCE, UNTIL = 1_796_083_200, 1_796_169_600  # the times in the statuses below

Json = dict[str, Any]


@pytest.fixture(scope="session")
def kube_state_metrics() -> Path:
    """Return the path of the program, and build it before the first test."""
    return find_program("kube-state-metrics")


@pytest.fixture(scope="module")
def kubeconfig(private_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the kubeconfig of an account with only the rights of the role."""
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "tidelock-kube-state-metrics"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": yaml.safe_load(ROLE.read_text())["metadata"]["name"],
        },
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}],
    }
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": ACCOUNT, "namespace": "default"},
    }
    private_cluster.kubectl("apply", "--server-side", "-f", str(ROLE))
    private_cluster.kubectl("apply", "--server-side", "-f", "-", input=yaml.safe_dump_all([account, binding]))
    folder = tmp_path_factory.mktemp("identity")
    return token_kubeconfig(private_cluster, ACCOUNT, "default", folder / "kubeconfig")


@pytest.fixture(scope="module")
def port(
    kube_state_metrics: Path, kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """Run kube-state-metrics for the private cluster, and yield the port of its metrics."""
    objects, itself = free_ports(2)
    component = Component(
        name="kube-state-metrics",
        command=(
            str(kube_state_metrics),
            f"--kubeconfig={kubeconfig}",
            "--custom-resource-state-only=true",
            f"--custom-resource-state-config-file={CONFIGURATION}",
            f"--host={HOST}",
            f"--port={objects}",
            f"--telemetry-host={HOST}",
            f"--telemetry-port={itself}",
        ),
        health=Health(objects, "/healthz", None),
        directory=tmp_path_factory.mktemp("kube-state-metrics"),
    )
    with kept(component):
        yield objects


def condition(kind: str, status: str) -> Json:
    """Build a condition with all fields that the schema requires."""
    return {
        "type": kind,
        "status": status,
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-12-01T00:00:00Z",
        "observedGeneration": 1,
    }


def samples(port: int, **which: str) -> dict[str, float]:
    """Scrape the samples of one object, without the labels that all of them have."""
    with urlopen(f"http://{HOST}:{port}/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    found = {}
    for family in families:
        for sample in family.samples:
            if which.items() <= sample.labels.items():
                rest = {key: text for key, text in sample.labels.items() if key not in ADDED | which.keys()}
                text = ",".join(f"{key}={value}" for key, value in sorted(rest.items()))
                found[f"{sample.name.removeprefix('kube_tidelock_')}{{{text}}}"] = sample.value
    return found


def test_a_reservation_has_samples_of_its_phase_end_amounts_and_owner(
    private_world: World, port: int
) -> None:
    reservation = private_world.reservation("web-0", "2", "node-a", priority=7)
    status = {
        "observedGeneration": 1,
        "phase": "Active",
        "epoch": 0,
        "conditions": [condition("Active", "True"), condition("Ready", "False")],
        "activatedAt": "2026-12-01T00:00:00Z",
        "expiresAt": "2026-12-02T00:00:00Z",
        "nodeName": "node-a",
        "owner": "pod/web-0",
        "resources": {"cpu": "1500m", "memory": "4Gi"},
    }
    reservation.merge({"status": status}, "status")
    expected: dict[str, float] = {
        "reservation_info{node=node-a,owner=pod/web-0}": 1,
        "reservation_status_activated_timestamp_seconds{}": SINCE,
        "reservation_status_expires_timestamp_seconds{}": UNTIL,
        "reservation_status_resources{resource=cpu}": 1.5,
        "reservation_status_resources{resource=memory}": 4 * 2**30,
        "reservation_spec_priority{}": 7,
    }
    expected |= {f"reservation_status_phase{{phase={each}}}": float(each == "Active") for each in Phase}
    expected |= {
        f"reservation_status_condition{{condition={kind},status={each}}}": float(each == holds)
        for kind, holds in (("Active", "True"), ("Ready", "False"))
        for each in ("True", "False", "Unknown")
    }

    found = wait_for(
        lambda: samples(port, reservation="web-0", namespace=private_world.namespace),
        lambda seen: "reservation_info{node=node-a,owner=pod/web-0}" in seen,
        what="the lock to be scraped",
    )

    assert found.pop("reservation_created{}") > 0
    assert found == expected


def test_a_waiting_reservation_has_no_samples_of_a_node_or_an_end(private_world: World, port: int) -> None:
    private_world.reservation("web-1").merge({"status": {"phase": "Pending", "owner": "pod/web-1"}}, "status")

    found = wait_for(
        lambda: samples(port, reservation="web-1", namespace=private_world.namespace),
        lambda seen: seen.get("reservation_status_phase{phase=Pending}"),
        what="the lock to be scraped",
    )

    assert found["reservation_info{owner=pod/web-1}"] == 1
    assert not [name for name in found if "timestamp" in name or "resources" in name]


def test_a_water_level_has_samples_of_its_numbers(private_world: World, port: int) -> None:
    name = private_world.namespace
    manifest = water_level_manifest(name, private_world.selector, "http://prometheus:9090")
    private_world.api.create(WATERLEVELS.collection(), manifest)
    spread = {"mean": 40, "min": 20, "max": 60, "standardDeviation": 16, "target": 30}
    counts = {"nodesMeasured": 3, "nodesStale": 2, "nodesMissing": 1, "nodesInvalid": 0}
    status = {
        "observedGeneration": 1,
        "conditions": [condition("Ready", "True")],
        "sampledAt": "2026-12-01T00:00:00Z",
        "cpu": spread,
        "memory": spread,
        **counts,
    }
    private_world.api.merge(f"{WATERLEVELS.item(name)}/status", {"status": status})
    expected: dict[str, float] = {"waterlevel_status_sampled_timestamp_seconds{}": SINCE}
    expected |= {
        f"waterlevel_status_percent{{resource={resource},statistic={statistic}}}": value
        for resource in ("cpu", "memory")
        for statistic, value in spread.items()
    }
    expected |= {
        f"waterlevel_status_nodes{{quality={quality}}}": count
        for quality, count in zip(("fresh", "stale", "missing", "invalid"), counts.values(), strict=True)
    }
    expected |= {
        f"waterlevel_status_condition{{condition=Ready,status={each}}}": float(each == "True")
        for each in ("True", "False", "Unknown")
    }

    found = wait_for(
        lambda: samples(port, waterlevel=name),
        lambda seen: "waterlevel_status_sampled_timestamp_seconds{}" in seen,
        what="the WaterLevel to be scraped",
    )
    private_world.api.delete(WATERLEVELS.item(name))

    assert found.pop("waterlevel_created{}") > 0
    assert found == expected
