"""The flow control of the API server for the operator: the priority level of each kind of request.

It needs an API server that assigns requests to priority levels.
"""

from pathlib import Path

import pytest
import yaml

from cluster.api import Api
from cluster.crds import install_crds
from cluster.live import condition
from devcluster import Cluster, wait_for
from devcluster.identity import SYSTEM_NAMESPACE, operator_kubeconfig, rendered, token_kubeconfig
from tidelock.kube.client import NODES, PODS, RESERVATIONS, ApiResource
from tidelock.kube.lease import LEASES

_GROUP = "flowcontrol.apiserver.k8s.io"
SCHEMAS = ApiResource(_GROUP, "v1", "flowschemas", "FlowSchema", namespaced=False)
LEVELS = ApiResource(
    _GROUP, "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", namespaced=False
)


@pytest.fixture(scope="module")
def admin(controlplane: Cluster) -> Api:
    """Apply the flow control of the manifests, and return an admin's client."""
    install_crds(controlplane)
    objects = [each for each in rendered(controlplane) if each["apiVersion"].startswith(_GROUP)]
    flags = ("--server-side", "--force-conflicts")
    controlplane.kubectl("apply", *flags, "-f", "-", input=yaml.safe_dump_all(objects))
    return Api(controlplane.kubeconfig)


@pytest.fixture(scope="module")
def operator(controlplane: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Api:
    return Api(operator_kubeconfig(controlplane, tmp_path_factory.mktemp("operator")))


def served_by(api: Api, path: str) -> tuple[str, str]:
    """Return the uids of the FlowSchema and the priority level that match a request."""
    headers = api.headers(path)
    return headers["X-Kubernetes-PF-FlowSchema-UID"], headers["X-Kubernetes-PF-PriorityLevel-UID"]


def uids(admin: Api, schema: str, level: str) -> tuple[str, str]:
    found = [admin.get(SCHEMAS.item(schema)), admin.get(LEVELS.item(level))]
    first, second = (str(each["metadata"]["uid"]) for each in found)
    return first, second


@pytest.mark.parametrize(
    ("path", "schema", "level"),
    [
        (NODES.collection(), "tidelock", "tidelock"),
        (PODS.collection(), "tidelock", "tidelock"),
        (RESERVATIONS.collection("default"), "tidelock", "tidelock"),
        ("/apis", "tidelock", "tidelock"),
        (LEASES.item("tidelock", SYSTEM_NAMESPACE), "tidelock-leader-election", "leader-election"),
    ],
    ids=["of the cluster", "of all namespaces", "of a namespace", "discovery", "the Lease"],
)
def test_requests_of_the_operator_match_its_own_flow_schemas(
    admin: Api, operator: Api, path: str, schema: str, level: str
) -> None:
    # The server knows a new schema only after a moment.
    wait_for(
        lambda: served_by(operator, path),
        until=lambda found: found == uids(admin, schema, level),
        what=f"{path} to be served by {level}",
    )


def test_requests_of_a_tenant_do_not_get_the_operators_priority_level(
    admin: Api, operator: Api, controlplane: Cluster, namespace: str, tmp_path: Path
) -> None:
    controlplane.kubectl("create", "serviceaccount", "noisy", "-n", namespace)
    tenant = Api(token_kubeconfig(controlplane, "noisy", namespace, tmp_path / "noisy"))
    path = PODS.collection(namespace)
    ours = uids(admin, "tidelock", "tidelock")
    wait_for(lambda: served_by(operator, path), until=lambda found: found == ours, what="the schema to count")
    assert served_by(tenant, path) == uids(admin, "service-accounts", "workload-low")


def test_the_flow_schemas_name_existing_priority_levels(admin: Api) -> None:
    for name in ("tidelock", "tidelock-leader-election"):
        dangling = wait_for(
            lambda name=name: condition(admin.get(SCHEMAS.item(name)).get("status", {}), "Dangling"),  # type: ignore[misc]
            what="the server to judge the schema",
        )
        assert dangling["status"] == "False"
