"""Unauthorised callers: every pod of a cluster can reach the port for other binders."""

import asyncio
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest

from builders import pod, pod_json
from devcluster.keys import Keys, make_keys
from devcluster.loopback import HOST
from unit.binders.server_scene import ServerScene

PATIENCE = 30.0
REVIEW = {
    "request": {
        "uid": "forged",
        "resource": {"resource": "pods"},
        "namespace": "shop",
        "object": pod_json("forged", uid="forged", node_name="a", requests={"cpu": "2"}),
    }
}
FILTER = {"Pod": pod_json("web-0"), "NodeNames": ["a"]}


@pytest.fixture(scope="module")
def schedulers(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("schedulers"))


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("strangers"))


@pytest.fixture
async def scene(schedulers: Keys) -> AsyncIterator[ServerScene]:
    made = ServerScene(schedulers)
    async with made.open():
        yield made


@pytest.mark.parametrize("path", ["/admission", "/admission/", "/admission/" + 64 * "0", "/admission/\xe9"])
async def test_a_review_without_the_token_is_not_read(scene: ServerScene, path: str) -> None:
    """Any pod could forge a review. Forty of them filled five nodes for as long as they were repeated."""
    assert await scene.ask(path, REVIEW, scene.tls()) == (404, "")
    assert scene.core.used("a") == 0


async def test_the_extender_answers_404_to_a_scheduler_without_a_certificate(scene: ServerScene) -> None:
    """Any pod could ask which reservations exist, and get capacity reserved for a pod that does not exist."""
    for verb in ("filter", "prioritize", "preempt", "none"):
        assert await scene.ask(f"/extender/{verb}", FILTER, scene.tls()) == (404, "")
    assert (await scene.post("/extender/filter", FILTER))[0] == 200


async def test_the_token_of_the_webhooks_does_not_authorise_extender_calls(scene: ServerScene) -> None:
    (path,) = scene.api.paths
    token = path.rpartition("/")[2]
    for other in (f"/extender/{token}/filter", f"/extender/filter/{token}", f"/extender/{token}"):
        assert (await scene.ask(other, FILTER, scene.tls()))[0] == 404


async def test_a_certificate_of_a_scheduler_does_not_authorise_reviews(
    scene: ServerScene, schedulers: Keys
) -> None:
    assert (await scene.ask("/admission", REVIEW, scene.tls(schedulers)))[0] == 404
    assert scene.core.used("a") == 0


async def test_a_certificate_of_an_unknown_authority_is_refused(scene: ServerScene, strangers: Keys) -> None:
    with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
        await scene.ask("/extender/filter", FILTER, scene.tls(strangers))
    assert scene.core.used("a") == 0


async def test_a_caller_without_the_token_is_refused_before_its_body_comes(scene: ServerScene) -> None:
    """Six unfinished bodies of 512 MiB took 950 MiB, and one pod with 20,000 resources took 115 s."""
    tls = scene.tls()
    reader, writer = await asyncio.open_connection(HOST, scene.port, ssl=tls, server_hostname=HOST)
    writer.write(b"POST /admission HTTP/1.1\r\nHost: tidelock\r\nContent-Length: 4000000\r\n\r\n{")
    async with asyncio.timeout(PATIENCE):
        assert (await reader.readline()).startswith(b"HTTP/1.1 404 ")
    writer.close()


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "OPTIONS"])
async def test_no_answer_reveals_which_paths_exist(scene: ServerScene, method: str) -> None:
    answers = set()
    async with aiohttp.ClientSession() as session:
        for path in ("admission/x", "extender/filter", "nothing/there"):
            url = f"https://{HOST}:{scene.port}/{path}"
            async with session.request(method, url, ssl=scene.tls()) as response:
                answers.add((response.status, await response.text()))
    assert answers == {(404, "")}


async def test_a_forged_review_with_the_uid_of_a_waiting_pod_leaves_it_in_the_queue(
    scene: ServerScene,
) -> None:
    """A review with the uid of a waiting pod removed that pod from the queue permanently."""
    waiting = pod("web-0")
    scene.unbound_pods.upsert(None, waiting)
    request = REVIEW["request"] | {"object": pod_json("forged", uid=waiting.uid, node_name="a")}
    assert (await scene.post("/admission", {"request": request}))[0] == 400
    assert scene.core.queue.get(waiting.uid) is not None
