"""The server for other binders, over TLS on a real socket."""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import aiohttp
import pytest

from builders import Json, node, pod, pod_json
from tidelock.binders.arrivals import Arrivals
from tidelock.binders.endpoint import SERVICE, Endpoint
from tidelock.binders.guard import UNSEEN_SECONDS, Guard
from tidelock.binders.keeper import Keeper
from tidelock.binders.server import Door
from tidelock.clock import SystemClock
from tidelock.kube.errors import ServerError
from tidelock.model.meta import Key
from tidelock.serving import ListenError
from tidelock.telemetry import Telemetry
from unit.binders.cluster_store import SECRET, ClusterStore
from unit.scheduler.machinery import Core

HOST = "127.0.0.1"


class Scene:
    """A node of two cores and a door to it; pods arrive by the watch, or are there to be asked for."""

    def __init__(self) -> None:
        self.core = Core(node("a", cpu="2"))
        self.api = ClusterStore()
        self.telemetry = Telemetry(self.core.clock.monotonic, Random(1))  # noqa: S311 -- no secret
        self.guard = Guard(self.core.decider)
        self.arrivals = Arrivals(self.core.feed.pods, self.guard, self.core.clock)
        self.ready = True
        self.woken = asyncio.Event()
        with socket.create_server((HOST, 0)) as free:
            self.port = free.getsockname()[1]
        self.door = Door(
            self.guard,
            self.arrivals,
            Keeper(self.api, Key("system", "tls"), (HOST,), SystemClock()),
            Endpoint(self.api, Key("system", SERVICE), "10.0.0.7", self.port),
            self.api,
            self.core.clock,
            self.telemetry,
            address=HOST,
            port=self.port,
            ready=lambda: self.ready,
            wake=self.woken.set,
            extender=True,
            admission=True,
        )

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Serve, and clean up; comes back once the webhooks know the certificate."""
        task = asyncio.create_task(self.door.run())
        try:
            async with asyncio.timeout(30):
                while not any("caBundle" in str(patch) for _, patch in self.api.patches):
                    assert not task.done(), task.result()
                    await asyncio.sleep(0.01)
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def post(self, path: str, body: Any) -> tuple[int, str]:
        trust = base64.b64decode(self.api.objects[SECRET]["data"]["ca.crt"]).decode()
        tls = ssl.create_default_context(cadata=trust)
        url = f"https://{HOST}:{self.port}{path}"
        async with aiohttp.ClientSession() as session, session.post(url, json=body, ssl=tls) as response:
            return response.status, await response.text()

    async def review(self, name: str = "web-0", uid: str = "") -> Json:
        """Have a binding of a pod to the node be reviewed."""
        metadata = {"name": name} | ({"uid": uid} if uid else {})
        request = {
            "uid": "question",
            "resource": {"group": "", "resource": "pods"},
            "subResource": "binding",
            "namespace": "shop",
            "name": name,
            "object": {"metadata": metadata, "target": {"name": "a"}},
        }
        status, text = await self.post("/admission", {"request": request})
        assert status == 200, text
        response: Json = json.loads(text)["response"]
        return response

    def store(self, name: str, **fields: Any) -> None:
        self.api.objects[f"/api/v1/namespaces/shop/pods/{name}"] = pod_json(name, **fields)


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    async with made.open():
        yield made


async def test_a_binding_that_fits_is_admitted_and_the_loop_looks_again(scene: Scene) -> None:
    scene.arrivals.upsert(None, pod("web-0"))
    assert await scene.review(uid="uid-web-0") == {"uid": "question", "allowed": True}
    assert scene.core.used("a") == 1000
    assert scene.woken.is_set()


async def test_one_that_does_not_is_refused_and_counted(scene: Scene) -> None:
    scene.arrivals.upsert(None, pod("web-0", requests={"cpu": "3"}))
    answer = await scene.review(uid="uid-web-0")
    assert not answer["allowed"]
    assert "cpu 3 needed, 2 free" in answer["status"]["message"]
    metric = "tidelock_admission_reviews_total"
    assert scene.telemetry.registry.get_sample_value(metric, {"verdict": "refused"}) == 1


@pytest.mark.parametrize("uid", ["", "uid-web-0"])
async def test_a_pod_that_the_watch_has_not_told_of_is_asked_for(scene: Scene, uid: str) -> None:
    scene.store("web-0", requests={"cpu": "3"})
    assert not (await scene.review(uid=uid))["allowed"]


async def test_a_name_alone_means_whoever_has_it_now(scene: Scene) -> None:
    scene.arrivals.upsert(None, pod("web-0"))
    scene.store("web-0", uid="its-successor", requests={"cpu": "3"})
    assert not (await scene.review())["allowed"]


@pytest.mark.parametrize("stored", [None, {"uid": "another"}, {"node_name": "b"}])
async def test_whom_the_api_server_will_not_bind_needs_no_verdict(scene: Scene, stored: Json | None) -> None:
    if stored is not None:
        scene.store("web-0", requests={"cpu": "3"}, **stored)
    assert (await scene.review(uid="uid-web-0"))["allowed"]
    assert scene.core.used("a") == 0


async def test_a_pod_that_can_not_be_read_is_not_judged(scene: Scene) -> None:
    scene.api.errors = [ServerError("out of order", status=500)]
    request = {
        "uid": "question",
        "resource": {"resource": "pods"},
        "subResource": "binding",
        "namespace": "shop",
        "name": "web-0",
        "object": {"target": {"name": "a"}},
    }
    status, text = await scene.post("/admission", {"request": request})
    assert (status, text) == (503, "cannot read pod shop/web-0: 500: out of order")


async def test_a_scheduler_is_answered(scene: Scene) -> None:
    body = {"Pod": pod_json("web-0", requests={"cpu": "3"}), "NodeNames": ["a"]}
    status, text = await scene.post("/extender/filter", body)
    assert (status, json.loads(text)["NodeNames"]) == (200, [])
    assert (await scene.post("/extender/prioritize", body))[0] == 200
    assert (await scene.post("/extender/preempt", {"Pod": body["Pod"]}))[0] == 200


async def test_a_scheduler_waits_for_what_it_is_binding_itself(scene: Scene) -> None:
    scene.core.lock(owner="nobody")
    scene.core.step()
    nodes = {"NodeNames": ["a"]}
    first, second = ({"Pod": pod_json(name), **nodes} for name in ("first", "second"))
    await scene.post("/extender/filter", first)
    answering = asyncio.create_task(scene.post("/extender/filter", second))
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert not answering.done()
    scene.guard.gone("uid-first", scene.core.clock.now())
    assert json.loads((await answering)[1])["NodeNames"] == ["a"]


@pytest.mark.parametrize("path", ["/admission", "/extender/filter"])
async def test_what_makes_no_sense_is_refused_in_words(scene: Scene, path: str) -> None:
    status, text = await scene.post(path, {"neither": "nor"})
    assert status == 400
    assert "missing required field" in text


@pytest.mark.parametrize("path", ["/admission", "/extender/filter"])
async def test_nothing_is_judged_by_half_a_picture(scene: Scene, path: str) -> None:
    scene.ready = False
    assert (await scene.post(path, {}))[0] == 503


async def test_what_is_never_seen_is_forgotten_by_itself(scene: Scene) -> None:
    scene.arrivals.upsert(None, pod("web-0"))
    await scene.review(uid="uid-web-0")
    scene.woken.clear()
    scene.core.clock.advance(UNSEEN_SECONDS)
    async with asyncio.timeout(30):
        await scene.woken.wait()
    assert scene.core.used("a") == 0


async def test_a_certificate_that_can_not_be_had_now_is_tried_for_again() -> None:
    made = Scene()
    made.api.errors = [ServerError("out of order", status=500)]
    async with made.open():
        assert (await made.post("/extender/filter", {}))[0] == 400
    metric, labels = "tidelock_api_write_errors_total", {"write": "door", "reason": "ServerError"}
    assert made.telemetry.registry.get_sample_value(metric, labels) == 1


async def test_a_port_in_use_is_named() -> None:
    made = Scene()
    with (
        socket.create_server((HOST, made.port)),
        pytest.raises(ListenError, match=f"{HOST}:{made.port}: Address"),
    ):
        await made.door.run()


async def test_the_leader_is_the_endpoint_of_its_service(scene: Scene) -> None:
    slices = [made for path, made in scene.api.objects.items() if path.endswith("/tidelock-binders")]
    slices += [patch for path, patch in scene.api.patches if path.endswith("/tidelock-binders")]
    assert {each["endpoints"][0]["addresses"][0] for each in slices} == {"10.0.0.7"}
    assert {each["ports"][0]["port"] for each in slices} == {scene.port}
