"""The HTTP client, on a real API server.

It needs an API server that answers each kind of request and failure as clients see it.
"""

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from devcluster import Cluster
from tidelock.cli.installation_checks import POLICY_BINDINGS
from tidelock.kube.client import EVENTS, NODES, ApiResource, KubeClient
from tidelock.kube.config import Credentials, load_connection
from tidelock.kube.errors import (
    AdmissionUnavailable,
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    Unauthorized,
)
from tidelock.kube.events import EventRecorder, ObjectReference
from tidelock.kube.rest_config import RestConfig
from unit.kube.following import Thing

CONFIG_MAPS = ApiResource("", "v1", "configmaps", "ConfigMap")
POLICIES = replace(POLICY_BINDINGS, plural="validatingadmissionpolicies", kind="ValidatingAdmissionPolicy")
UNKNOWN = ApiResource("tidelock.dev", "v1", "unknowns", "Unknown")


@pytest.fixture
async def client(controlplane: Cluster) -> AsyncIterator[KubeClient]:
    async with KubeClient(load_connection(controlplane.kubeconfig), user_agent="tidelock-test") as opened:
        yield opened


async def create(client: KubeClient, namespace: str, name: str) -> Thing:
    body = {"metadata": {"name": name}}
    return msgspec.json.decode(await client.create(CONFIG_MAPS.collection(namespace), body), type=Thing)


def as_bearer(kubeconfig: Path, token: str) -> KubeClient:
    """Return a client with a token in the place of the kubeconfig's certificate."""
    found = RestConfig(header=lambda: f"Bearer {token}")
    connection = replace(
        load_connection(kubeconfig), credentials=Credentials(lambda: found), certificate_path=None
    )
    return KubeClient(connection, user_agent="tidelock-test")


async def test_a_delete_fails_if_the_uid_or_the_version_differs(client: KubeClient, namespace: str) -> None:
    first = await create(client, namespace, "a")
    path = CONFIG_MAPS.item("a", namespace)

    with pytest.raises(Conflict):
        await client.delete(path, uid="another")
    with pytest.raises(Conflict):
        await client.delete(path, uid=first.meta.uid, resource_version="1")
    await client.delete(path, uid=first.meta.uid, resource_version=first.meta.resource_version)
    with pytest.raises(NotFound):
        await client.get(path)

    await create(client, namespace, "a")
    with pytest.raises(Conflict):
        await client.delete(path, uid=first.meta.uid, propagation="Background")


def policy(name: str, namespace: str) -> list[dict[str, Any]]:
    """Return a policy for the namespace, with parameters of a kind that does not exist, and its binding."""
    metadata = {"name": name}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    spec = {
        "failurePolicy": "Fail",
        "paramKind": {"apiVersion": "tidelock.dev/v1", "kind": "Unknown"},
        "matchConstraints": {"namespaceSelector": selector, "resourceRules": [rule]},
        "validations": [{"expression": "true"}],
    }
    parameter = {"name": "a", "parameterNotFoundAction": "Allow"}
    binding = {"policyName": name, "paramRef": parameter, "validationActions": ["Deny"]}
    return [{"metadata": metadata, "spec": spec}, {"metadata": metadata, "spec": binding}]


async def create_until_refused(client: KubeClient, namespace: str) -> None:
    """Create objects until the API server, which reads policies by a watch, refuses one."""
    async with asyncio.timeout(60):
        for number in count():
            await create(client, namespace, f"a-{number}")
            await asyncio.sleep(0.1)


async def test_a_policy_that_can_not_be_evaluated_refuses_without_a_judgement(
    client: KubeClient, namespace: str
) -> None:
    """The API server answers 422 with a text about the policy, as if the object were invalid."""
    paths = [each.item(namespace) for each in (POLICIES, POLICY_BINDINGS)]
    for resource, each in zip((POLICIES, POLICY_BINDINGS), policy(namespace, namespace), strict=True):
        await client.create(resource.collection(), each)
    try:
        with pytest.raises(ApiError) as caught:
            await create_until_refused(client, namespace)
    finally:
        for path in paths:
            await client.delete(path)
    assert "failed to configure" in caught.value.message
    assert (type(caught.value), caught.value.status) == (AdmissionUnavailable, 422)


async def test_each_refusal_raises_its_own_exception(client: KubeClient, namespace: str) -> None:
    created = await create(client, namespace, "a")
    path = CONFIG_MAPS.item("a", namespace)
    await client.patch(path, {"data": {"x": "1"}})

    with pytest.raises(AlreadyExists) as taken:
        await create(client, namespace, "a")
    assert (taken.value.status, taken.value.reason) == (409, "AlreadyExists")
    with pytest.raises(Conflict):
        await client.patch(path, {"metadata": {"resourceVersion": created.meta.resource_version}})
    with pytest.raises(Invalid, match=r"metadata\.name"):
        await create(client, namespace, "Not_A_Name")
    with pytest.raises(NotFound):
        await client.get(UNKNOWN.collection())
    with pytest.raises(ApiError, match="400 BadRequest"):
        await client.create(CONFIG_MAPS.collection(namespace), b"{")


async def test_each_kind_of_patch_has_its_effect(client: KubeClient, namespace: str) -> None:
    await create(client, namespace, "a")
    path = CONFIG_MAPS.item("a", namespace)

    await client.patch(path, {"data": {"merge": "1"}})
    await client.patch(path, [{"op": "add", "path": "/data/json", "value": "2"}], kind="json")
    await client.patch(path, {"data": {"strategic": "3"}}, kind="strategic")
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"apply": "4"}}
    answer = await client.patch(path, applied, kind="apply", params={"fieldManager": "tidelock"})
    assert json.loads(answer)["data"] == {"merge": "1", "json": "2", "strategic": "3", "apply": "4"}


async def test_an_invalid_token_is_refused_and_a_valid_one_is_limited_by_rbac(
    controlplane: Cluster, namespace: str
) -> None:
    controlplane.kubectl("create", "serviceaccount", "reader", f"--namespace={namespace}")
    token = controlplane.kubectl("create", "token", "reader", f"--namespace={namespace}").strip()

    async with as_bearer(controlplane.kubeconfig, token) as client:
        with pytest.raises(Forbidden, match='cannot list resource "nodes"'):
            await client.get(NODES.collection())
    async with as_bearer(controlplane.kubeconfig, "nonsense") as client:
        with pytest.raises(Unauthorized):
            await client.get(NODES.collection())


async def test_events_are_accepted(client: KubeClient, namespace: str) -> None:
    pod = ObjectReference(api_version="v1", kind="Pod", name="web-0", namespace=namespace, uid="u1")
    node = ObjectReference(api_version="v1", kind="Node", name=f"node-of-{namespace}")
    async with EventRecorder(client, "tidelock.dev/scheduler", "tidelock-0") as recorder:
        recorder.record(pod, "Normal", "Scheduled", "Binding", "ä" * 2000)
        recorder.record(node, "Warning", "Overcommitted", "Checking", "too much is bound")
    assert recorder.failed == 0

    for regarding, where in ((pod, namespace), (node, "default")):
        listed = await client.get(
            EVENTS.collection(where), {"fieldSelector": f"regarding.name={regarding.name}"}
        )
        (event,) = json.loads(listed)["items"]
        assert event["regarding"]["kind"] == regarding.kind
        assert event["reportingController"] == "tidelock.dev/scheduler"


async def test_the_client_reads_the_clock_of_the_api_server(client: KubeClient) -> None:
    before = time.time()
    theirs = await client.time_of_day()
    after = time.time()

    assert before - 1 <= theirs <= after  # the same machine's clock, in whole seconds


def test_no_connection_outlives_the_client(controlplane: Cluster) -> None:
    """Test first requests that are cancelled at different times.

    An open socket causes a ResourceWarning, which is an error in tests.
    """

    async def cut_short(seconds: float) -> None:
        async with KubeClient(load_connection(controlplane.kubeconfig), user_agent="tidelock-test") as client:
            request = asyncio.create_task(client.get(NODES.collection()))
            await asyncio.sleep(seconds)
            request.cancel()
            await asyncio.wait((request,))

    for step in range(30):
        asyncio.run(cut_short(0.0005 * step))
        gc.collect()
