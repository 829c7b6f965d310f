"""The chart's objects of other projects' kinds are valid by the CRDs of these projects."""

from collections.abc import Iterator

import pytest
import yaml

from devcluster import DevClusterError, LocalCluster, start_cluster
from devcluster.build import find_module
from devcluster.identity import SYSTEM_NAMESPACE
from documents import ROOT
from installation.rendering import PLATFORM, Charted, Manifest

PINS = ROOT / "hack" / "peers" / "crds"
MODULES = {
    "github.com/cert-manager/cert-manager": "deploy/crds",
    "github.com/prometheus-operator/prometheus-operator": "example/prometheus-operator-crd",
}
KINDS = {"Certificate", "PrometheusRule", "ServiceMonitor"}


@pytest.fixture(scope="module")
def foreign_kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield an API server with the CRDs of the other projects."""
    folders = [find_module(PINS, path) / folder for path, folder in MODULES.items()]
    directory = tmp_path_factory.mktemp("crds")
    with start_cluster(directory, controller_manager=False, kwok=False) as cluster:
        for folder in folders:
            for file in sorted(folder.glob("*.yaml")):
                cluster.kubectl("apply", "--server-side", "-f", str(file))
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        cluster.kubectl("create", "namespace", SYSTEM_NAMESPACE)
        yield cluster


def refusal(cluster: LocalCluster, objects: list[Manifest]) -> str:
    """Return the reason for which the API server refuses objects, or an empty text."""
    flags = ("--server-side", "--dry-run=server", "--validate=strict", "--warnings-as-errors")
    try:
        cluster.kubectl("apply", *flags, "-f", "-", input=yaml.safe_dump_all(objects))
    except DevClusterError as error:
        return str(error)
    return ""


def test_the_objects_of_other_projects_kinds_are_accepted(
    foreign_kinds: LocalCluster, charted: Charted
) -> None:
    objects = [each for each in charted.objects(PLATFORM) if each["kind"] in KINDS]
    assert {each["kind"] for each in objects} == KINDS
    assert refusal(foreign_kinds, objects) == ""


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_unknown_field_of_these_kinds_is_refused(
    foreign_kinds: LocalCluster, charted: Charted, kind: str
) -> None:
    (found,) = [each for each in charted.objects(PLATFORM) if each["kind"] == kind]
    found["spec"]["honourLabels"] = True
    assert "honourLabels" in refusal(foreign_kinds, [found])
