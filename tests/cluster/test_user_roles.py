"""The rights of the roles for users and managers, checked by impersonated requests.

It needs an API server that authorizes impersonated users by roles.
"""

from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus

import pytest
import yaml

from cluster.api import Api, Manifest, RefusedError
from cluster.crds import install_crds
from cluster.world import World
from devcluster import Cluster, wait_for
from devcluster.identity import rendered
from tidelock.kube.client import RESERVATIONS, ApiResource

REVIEWS = ApiResource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
BINDINGS = ApiResource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_BINDINGS = ApiResource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
READING = {"get", "list", "watch"}
WRITING = {"create", "update", "patch", "delete"}
VERBS = READING | WRITING | {"deletecollection"}
RESOURCES = [
    "reservations.tidelock.dev",
    "reservations.tidelock.dev/status",
    "waterlevels.tidelock.dev",
    "waterlevels.tidelock.dev/status",
    "pods",
    "pods/binding",
    "secrets",
    "rolebindings.rbac.authorization.k8s.io",
]
OF_THE_CLUSTER = {"waterlevels.tidelock.dev"}
# Users, and the roles that they have in the world's namespace.
ROLES = {"mia": "tidelock-manager", "vic": "tidelock-viewer", "val": "view", "ed": "edit"}
EVERYWHERE = "walter"  # a viewer of the cluster


@pytest.fixture(scope="module")
def world(controlplane: Cluster) -> Iterator[World]:
    """Yield a world in which each user has the role of the table, and no operator runs."""
    install_crds(controlplane)
    roles = [each for each in rendered(controlplane) if _is_user_role(each)]
    flags = ("--server-side", "--force-conflicts")
    controlplane.kubectl("apply", *flags, "-f", "-", input=yaml.safe_dump_all(roles))
    with closing(World(Api(controlplane.kubeconfig))) as made:
        for user, role in ROLES.items():
            made.api.create(BINDINGS.collection(made.namespace), binding(user, user, role))
        made.api.create(CLUSTER_BINDINGS.collection(), binding(made.namespace, EVERYWHERE, "tidelock-viewer"))
        for user in (*ROLES, EVERYWHERE):  # aggregation takes a moment, as do bindings
            wait_for(lambda user=user: may(made, user, "list"), what=f"{user}'s role to count")  # type: ignore[misc]
        yield made
        made.api.delete(CLUSTER_BINDINGS.item(made.namespace))


def _is_user_role(manifest: Manifest) -> bool:
    return (manifest["kind"], manifest["metadata"]["name"]) in {
        ("ClusterRole", "tidelock-manager"),
        ("ClusterRole", "tidelock-viewer"),
    }


def binding(name: str, user: str, role: str) -> Manifest:
    group = BINDINGS.group
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    }


def may(
    world: World, user: str, verb: str, resource: str = "reservations.tidelock.dev", namespace: str = ""
) -> bool:
    """Return whether a user has a right in the world's namespace, or in another one.

    A cluster-scoped resource is checked without a namespace.
    """
    qualified, _, subresource = resource.partition("/")
    plural, _, group = qualified.partition(".")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": plural,
        "subresource": subresource,
        "namespace": "" if qualified in OF_THE_CLUSTER else namespace or world.namespace,
    }
    answer = world.api.acting(user).create(REVIEWS.collection(), {"spec": {"resourceAttributes": attributes}})
    return bool(answer["status"]["allowed"])


def rights(world: World, user: str) -> dict[str, set[str]]:
    """Return the verbs that a user may use on each resource."""
    found = {resource: {verb for verb in VERBS if may(world, user, verb, resource)} for resource in RESOURCES}
    return {resource: verbs for resource, verbs in found.items() if verbs}


def test_a_manager_writes_reservations_and_reads_single_pods(world: World) -> None:
    assert rights(world, "mia") == {"reservations.tidelock.dev": READING | WRITING, "pods": {"get"}}


def test_a_viewer_only_reads_reservations(world: World) -> None:
    assert rights(world, "vic") == {"reservations.tidelock.dev": READING}


def test_a_viewer_of_the_whole_cluster_also_reads_cluster_scoped_resources(world: World) -> None:
    assert rights(world, EVERYWHERE) == dict.fromkeys(
        ("reservations.tidelock.dev", "waterlevels.tidelock.dev"), READING
    )


@pytest.mark.parametrize("user", ["val", "ed"])
def test_the_roles_view_and_edit_read_reservations_and_write_none(world: World, user: str) -> None:
    found = rights(world, user)
    assert found["reservations.tidelock.dev"] == READING
    assert "reservations.tidelock.dev/status" not in found


@pytest.mark.parametrize("user", ROLES)
def test_a_role_grants_nothing_in_another_namespace(world: World, user: str) -> None:
    assert not [verb for verb in VERBS if may(world, user, verb, namespace="default")]


def refused(world: World, user: str, method: str) -> int:
    """Try an operation on the world's reservation as a user, and return the HTTP status."""
    api, path = world.api.acting(user), RESERVATIONS.item("web-0", world.namespace)
    try:
        match method:
            case "create":
                api.create(RESERVATIONS.collection(world.namespace), world.manifest("other"))
            case "edit":
                api.merge(path, {"spec": {"priority": 1}})
            case "status":
                api.merge(f"{path}/status", {"status": {"phase": "Active"}})
            case "delete":
                api.delete(path)
    except RefusedError as refusal:
        return refusal.status
    return HTTPStatus.OK


def test_requests_succeed_or_fail_by_the_role_of_the_user(world: World) -> None:
    mia, path = world.api.acting("mia"), RESERVATIONS.item("web-0", world.namespace)
    mia.create(RESERVATIONS.collection(world.namespace), world.manifest("web-0"))
    tries = ("create", "edit", "status", "delete")
    for user in ("vic", "ed"):
        assert {refused(world, user, method) for method in tries} == {HTTPStatus.FORBIDDEN}
        assert world.api.acting(user).get(path)["metadata"]["name"] == "web-0"
    assert refused(world, "mia", "status") == HTTPStatus.FORBIDDEN
    assert refused(world, "mia", "edit") == HTTPStatus.OK
    assert refused(world, "mia", "delete") == HTTPStatus.OK
