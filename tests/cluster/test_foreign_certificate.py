"""A certificate that another component keeps. The tests act as cert-manager and its CA injector do.

It needs an API server that trusts the authority of a webhook configuration.
"""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cluster.api import Api, Manifest
from cluster.binder_server import SECRET, creation_webhook, operating_here, until_reviewed, webhooks
from cluster.quick_operator import QUICK
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import EXTENDER, SYSTEM_NAMESPACE, operator_kubeconfig
from devcluster.keys import Keys, make_keys
from devcluster.loopback import HOST, free_ports
from tidelock.binders.certificate_rotator import ANSWER_KEY
from tidelock.binders.webhooks import CONFIGURATION
from tidelock.kube.client import MUTATING_WEBHOOKS, WEBHOOKS

OFTEN = replace(QUICK, certificate_check=0.2)


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def issue(cluster: LocalCluster, keys: Keys) -> None:
    """Write a certificate into the Secret as cert-manager does, which owns only these fields."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": "tidelock-tls", "namespace": SYSTEM_NAMESPACE},
        "data": {
            "ca.crt": encoded(keys.authority),
            "tls.crt": encoded(keys.server_certificate),
            "tls.key": encoded(keys.server_key),
        },
    }
    flags = ("--server-side", "--field-manager=cert-manager", "-f", "-")
    cluster.kubectl("apply", *flags, input=json.dumps(secret))


def inject(api: Api, *issued: Keys) -> str:
    """Write authorities into all webhooks as the CA injector does, and return the bundle."""
    bundle = base64.b64encode(b"".join(keys.authority.read_bytes() for keys in issued)).decode()

    def trust(configuration: Manifest) -> None:
        for webhook in configuration["webhooks"]:
            webhook["clientConfig"]["caBundle"] = bundle

    for resource in (WEBHOOKS, MUTATING_WEBHOOKS):
        api.edit(resource.item(CONFIGURATION), trust)
    return bundle


def is_served(port: int, keys: Keys) -> bool:
    """Return whether the server's certificate is one of these keys' authority."""
    context = ssl.create_default_context(cafile=str(keys.authority))
    try:
        with socket.create_connection((HOST, port), timeout=5) as connection:
            context.wrap_socket(connection, server_hostname=HOST).close()
    except OSError:
        return False
    return True


@pytest.fixture
def issued(tmp_path: Path) -> list[Keys]:
    return [make_keys(tmp_path / name) for name in ("first", "second")]


@pytest.fixture
def port() -> int:
    (free,) = free_ports(1)
    return free


@pytest.fixture
def injected(private_cluster: LocalCluster, issued: list[Keys], port: int) -> Iterator[str]:
    api = Api(private_cluster.kubeconfig)
    with webhooks(private_cluster, api, port), creation_webhook(private_cluster, api, port):
        yield inject(api, *issued)


@pytest.fixture
async def serving(
    private_cluster: LocalCluster,
    issued: list[Keys],
    injected: str,
    port: int,
    tmp_path: Path,
) -> AsyncIterator[None]:
    """Run an operator that looks at the certificate several times a second, without the first one yet."""
    kubeconfig = operator_kubeconfig(private_cluster, tmp_path, EXTENDER)
    # The chart has no Secret of its own then, and the type of an existing one can't change.
    Api(private_cluster.kubeconfig).delete(SECRET)
    settings = {"admission": True, "answers": True, "tls_rotate": False}
    async with operating_here(kubeconfig, port, OFTEN, **settings):
        yield
    Api(private_cluster.kubeconfig).delete(SECRET)


@pytest.mark.usefixtures("serving")
async def test_a_certificate_of_cert_manager_is_served_as_soon_as_it_is_issued(
    private_cluster: LocalCluster, private_world: World, issued: list[Keys], injected: str, port: int
) -> None:
    def scenario() -> None:
        api, (first, second) = private_world.api, issued
        assert not is_served(port, first)
        issue(private_cluster, first)
        until_reviewed(private_world)
        assert is_served(port, first)
        key = api.get(SECRET)["data"][ANSWER_KEY]

        issue(private_cluster, second)
        wait_for(lambda: is_served(port, second), what="the renewed certificate")
        until_reviewed(private_world)
        data = api.get(SECRET)["data"]
        assert (data["tls.crt"], data[ANSWER_KEY]) == (encoded(second.server_certificate), key)
        for resource in (WEBHOOKS, MUTATING_WEBHOOKS):
            stored = api.get(resource.item(CONFIGURATION))["webhooks"]
            assert {each["clientConfig"]["caBundle"] for each in stored} == {injected}

    await asyncio.to_thread(scenario)
