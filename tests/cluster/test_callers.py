"""The token in the path of the webhooks, which the operator replaces without a failed call.

It needs an API server that takes over a changed webhook configuration, and shows its path in errors.
"""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
import yaml

from cluster.api import Api
from cluster.binder_server import BY_STOCK, bind, operating_here, until_reviewed, webhook_urls, webhooks
from cluster.quick_operator import QUICK
from cluster.world import World
from devcluster import LocalCluster, wait_for
from devcluster.identity import EXTENDER, SYSTEM_NAMESPACE, operator_kubeconfig, rendered
from devcluster.loopback import HOST, free_ports
from tidelock.binders import tokens
from tidelock.binders.certificate_rotator import CertificateRotator
from tidelock.binders.tokens import TOKEN_PATH
from tidelock.binders.webhooks import CONFIGURATION
from tidelock.clock import SystemClock
from tidelock.kube.client import WEBHOOKS, KubeClient
from tidelock.kube.config import load_connection
from tidelock.model.meta import Key

TOKENS = 12  # replaced while bindings go on
OVERLAP = 5.0
PATIENCE = 120.0
OFTEN = replace(QUICK, certificate_check=0.1)


@pytest.fixture
def port() -> int:
    (free,) = free_ports(1)
    return free


@pytest.fixture
def installed(private_cluster: LocalCluster, port: int) -> Iterator[Api]:
    api = Api(private_cluster.kubeconfig)
    with webhooks(private_cluster, api, port):
        yield api


@pytest.fixture
async def hasty(
    private_cluster: LocalCluster,
    installed: Api,
    port: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[None]:
    """Run an operator that replaces the token many times a second.

    It runs inside of this process, which must outlive it.
    """
    monkeypatch.setattr(tokens, "TOKEN_LIFETIME", 0.0)
    monkeypatch.setattr(tokens, "OVERLAP", OVERLAP)
    kubeconfig = operator_kubeconfig(private_cluster, tmp_path, EXTENDER)
    async with operating_here(kubeconfig, port, OFTEN, admission=True):
        with closing(World(installed)) as trial:
            await asyncio.to_thread(until_reviewed, trial)
        yield


async def answer(url: str) -> int:
    """Call a URL of the webhooks, and return the status."""
    async with aiohttp.ClientSession() as session, session.post(url, json={}, ssl=False) as response:
        return response.status


@pytest.mark.usefixtures("hasty")
async def test_no_binding_fails_while_tokens_are_replaced(installed: Api, private_world: World) -> None:
    node = private_world.node(cpu="64")
    old = webhook_urls(installed)[0]
    seen, diagnoses = SimpleNamespace(urls={old}), []

    def bind_on() -> None:
        for number in itertools.count():
            diagnoses.append(bind(private_world.pod(f"pod-{number}", "10m", **BY_STOCK), node))
            seen.urls.update(webhook_urls(installed))
            if len(seen.urls) > TOKENS:
                return

    async with asyncio.timeout(PATIENCE):
        await asyncio.to_thread(bind_on)
        assert set(diagnoses) == {""}
        # A client that knows a token can use it during the overlap, and not afterwards.
        while await answer(old) != 404:  # noqa: ASYNC110 -- no event signals it
            await asyncio.sleep(0.1)


def test_a_failed_webhook_call_shows_the_token_to_the_client(
    private_cluster: LocalCluster, installed: Api, private_world: World
) -> None:
    """The refusal of a failed call contains the webhook's URL, so the client that binds a pod sees the token.

    This is why the operator replaces the token. No operator listens in this test.
    """
    node, pod = private_world.node(cpu="4"), private_world.pod("stranger", **BY_STOCK)
    configuration = installed.get(WEBHOOKS.item(CONFIGURATION))
    token = 64 * "0"
    for webhook in configuration["webhooks"]:
        webhook["clientConfig"]["url"] += f"/admission/{token}"
    installed.replace(WEBHOOKS.item(CONFIGURATION), configuration)
    told = wait_for(
        lambda: bind(pod, node),
        until=lambda refusal: f"/admission/{token}" in refusal,
        what="the webhook to be called",
        timeout=60,
    )
    assert "failed to call webhook: Post" in told


@pytest.mark.parametrize("flags", [("--server-side",), ()], ids=["server-side", "client-side"])
async def test_applying_the_manifests_again_keeps_the_fields_of_the_operator(
    private_cluster: LocalCluster, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    """A path in the manifests would be restored by each tool that applies a repository repeatedly."""
    api, item = Api(private_cluster.kubeconfig), WEBHOOKS.item(CONFIGURATION)
    connection = load_connection(operator_kubeconfig(private_cluster, tmp_path, EXTENDER))
    (configuration,) = [each for each in rendered(private_cluster, EXTENDER) if each["kind"] == WEBHOOKS.kind]
    text = yaml.safe_dump(configuration)
    private_cluster.kubectl("apply", *flags, "-f", "-", input=text)
    try:
        async with KubeClient(connection, user_agent="tidelock/test") as client:
            rotator = CertificateRotator(
                client, Key(SYSTEM_NAMESPACE, "tidelock-tls"), (HOST,), SystemClock()
            )
            await rotator.renew()
            await rotator.introduce()
        written = [each["clientConfig"] for each in api.get(item)["webhooks"]]
        private_cluster.kubectl("apply", *flags, "-f", "-", input=text)
        assert [each["clientConfig"] for each in api.get(item)["webhooks"]] == written
        for each in written:
            assert each["caBundle"]
            assert TOKEN_PATH.fullmatch(each["service"]["path"])
    finally:
        api.delete(item)
