"""Malformed Reservations, which the API server must refuse by the types and rules of the CRD.

It needs an API server that validates types and rules of the CRD.
"""

import pytest

from cluster.api import Api, Manifest, RefusedError
from cluster.crds import install_crds
from cluster.malformed import API_SERVER_REFUSES, OPERATOR_REFUSES, Malformed
from cluster.plain_reservations import owned, reservation
from devcluster import Cluster
from tidelock.kube.client import RESERVATIONS

DRY_RUN = f"{RESERVATIONS.collection('default')}?dryRun=All"


@pytest.fixture(scope="module")
def api(controlplane: Cluster) -> Api:
    install_crds(controlplane)
    return Api(controlplane.kubeconfig)


def test_the_base_manifest_of_all_cases_is_accepted(api: Api) -> None:
    assert api.create(DRY_RUN, reservation())["metadata"]["uid"]


@pytest.mark.parametrize("case", API_SERVER_REFUSES, ids=lambda case: case.name)
def test_the_api_server_refuses(api: Api, case: Malformed) -> None:
    with pytest.raises(RefusedError) as refusal:
        api.create(DRY_RUN, case.manifest)
    assert case.field in refusal.value.message
    assert case.words in refusal.value.message


@pytest.mark.parametrize(
    "manifest", [pytest.param(manifest, id=name) for name, manifest, _ in OPERATOR_REFUSES]
)
def test_the_api_server_accepts_manifests_that_only_the_operator_refuses(
    api: Api, manifest: Manifest
) -> None:
    assert api.create(DRY_RUN, manifest)["metadata"]["uid"]


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (owned({"pod": {"name": "web-0", "namespace": "other"}}), "spec.owners[0].pod.namespace"),
        (reservation(affinity={"podAffinity": {"x": 1}}), "spec.affinity.podAffinity"),
    ],
)
def test_a_field_that_changes_the_meaning_is_refused_even_without_client_validation(
    api: Api, manifest: Manifest, field: str
) -> None:
    with pytest.raises(RefusedError) as refusal:
        api.post(DRY_RUN, manifest)
    assert field in refusal.value.message
