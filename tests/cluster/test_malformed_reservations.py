import json

import pytest

from cluster.api import Manifest
from cluster.crds import install_crds
from cluster.malformed import API_SERVER_REFUSES, OPERATOR_REFUSES, Malformed
from cluster.plain_reservations import owned, reservation
from devcluster import Cluster, DevClusterError


@pytest.fixture(scope="module")
def api(controlplane: Cluster) -> Cluster:
    install_crds(controlplane)
    return controlplane


def create(api: Cluster, manifest: Manifest, *options: str) -> str:
    return api.kubectl("create", "--dry-run=server", *options, "-f", "-", input=json.dumps(manifest))


def test_the_base_manifest_of_all_cases_is_accepted(api: Cluster) -> None:
    assert "created" in create(api, reservation())


@pytest.mark.parametrize("case", API_SERVER_REFUSES, ids=lambda case: case.name)
def test_the_api_server_refuses(api: Cluster, case: Malformed) -> None:
    with pytest.raises(DevClusterError) as refusal:
        create(api, case.manifest)
    assert case.field in str(refusal.value)
    assert case.words in str(refusal.value)


@pytest.mark.parametrize(
    "manifest", [pytest.param(manifest, id=name) for name, manifest, _ in OPERATOR_REFUSES]
)
def test_the_api_server_accepts_manifests_that_only_the_operator_refuses(
    api: Cluster, manifest: Manifest
) -> None:
    assert "created" in create(api, manifest)


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (owned({"pod": {"name": "web-0", "namespace": "other"}}), "spec.owners[0].pod.namespace"),
        (reservation(affinity={"podAffinity": {"x": 1}}), "spec.affinity.podAffinity"),
    ],
)
def test_a_field_that_changes_the_meaning_is_refused_even_without_client_validation(
    api: Cluster, manifest: Manifest, field: str
) -> None:
    with pytest.raises(DevClusterError) as refusal:
        create(api, manifest, "--validate=ignore")
    assert field in str(refusal.value)
