"""The server for other binders, over TLS on a real socket."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator

import pytest

from builders import Json, pod, pod_json
from devcluster.keys import Keys, make_keys
from devcluster.loopback import HOST
from devices import allocated, claim_json
from tidelock.binders import server
from tidelock.binders.admission_check import UNSEEN_SECONDS
from tidelock.binders.claim_check import allocating_text
from tidelock.binders.server import unread_text
from tidelock.framework.rejections import shortage_text
from tidelock.kube.errors import ServerError
from tidelock.tcp_server import ListenError
from unit.binders.server_scene import ServerScene

BINDING = {
    "uid": "question",
    "resource": {"resource": "pods"},
    "subResource": "binding",
    "namespace": "shop",
    "name": "web-0",
    "object": {"target": {"name": "a"}},
}


@pytest.fixture(scope="module")
def schedulers(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    return make_keys(tmp_path_factory.mktemp("schedulers"))


@pytest.fixture
async def scene(schedulers: Keys) -> AsyncIterator[ServerScene]:
    made = ServerScene(schedulers)
    async with made.open():
        yield made


async def test_a_binding_that_fits_is_admitted_and_wakes_the_decision_loop(scene: ServerScene) -> None:
    scene.unbound_pods.upsert(None, pod("web-0"))
    assert await scene.review(uid="uid-web-0") == {"uid": "question", "allowed": True}
    assert scene.core.used("a") == 1000
    assert scene.woken.is_set()


async def test_a_binding_that_does_not_fit_is_refused_and_counted(scene: ServerScene) -> None:
    scene.unbound_pods.upsert(None, pod("web-0", requests={"cpu": "3"}))
    answer = await scene.review(uid="uid-web-0")
    assert not answer["allowed"]
    assert shortage_text("cpu", "3", "2") in answer["status"]["message"]
    metric = "tidelock_admission_reviews_total"
    assert scene.telemetry.registry.get_sample_value(metric, {"verdict": "refused"}) == 1


async def test_devices_that_are_given_already_are_refused_to_another_claim(scene: ServerScene) -> None:
    async def review(name: str) -> Json:
        request = {
            "uid": "question",
            "resource": {"group": "resource.k8s.io", "resource": "resourceclaims"},
            "subResource": "status",
            "object": claim_json(name, status=allocated("gpu-0")),
        }
        status, text = await scene.post("/admission", {"request": request})
        assert status == 200, text
        response: Json = json.loads(text)["response"]
        return response

    assert await review("one") == {"uid": "question", "allowed": True}
    answer = await review("two")
    assert answer["status"]["message"] == allocating_text("gpu.example.com/a/gpu-0", "shop/one")
    scene.core.clock.advance(UNSEEN_SECONDS)
    assert scene.check.lapse(scene.core.clock.now())
    assert (await review("two"))["allowed"]


@pytest.mark.parametrize("uid", ["", "uid-web-0"])
async def test_a_pod_that_the_watch_has_not_shown_is_read_from_the_api_server(
    scene: ServerScene, uid: str
) -> None:
    scene.store("web-0", requests={"cpu": "3"})
    assert not (await scene.review(uid=uid))["allowed"]


async def test_a_binding_without_uid_means_the_current_pod_of_that_name(scene: ServerScene) -> None:
    scene.unbound_pods.upsert(None, pod("web-0"))
    scene.store("web-0", uid="its-successor", requests={"cpu": "3"})
    assert not (await scene.review())["allowed"]


@pytest.mark.parametrize("stored", [None, {"uid": "another"}, {"node_name": "b"}])
async def test_a_binding_that_the_api_server_will_refuse_is_admitted_without_a_check(
    scene: ServerScene, stored: Json | None
) -> None:
    if stored is not None:
        scene.store("web-0", requests={"cpu": "3"}, **stored)
    assert (await scene.review(uid="uid-web-0"))["allowed"]
    assert scene.core.used("a") == 0


async def test_a_review_fails_if_the_pod_cannot_be_read(scene: ServerScene) -> None:
    scene.api.errors = [ServerError("out of order", status=500)]
    status, text = await scene.post("/admission", {"request": BINDING})
    assert (status, text) == (503, unread_text("shop/web-0", "500: out of order"))


async def test_a_creation_review_with_the_uid_of_a_known_pod_is_refused(scene: ServerScene) -> None:
    """A forged review of a creation, with the uid of a waiting pod, once took that pod out of the queue."""
    waiting = pod("web-0")
    scene.unbound_pods.upsert(None, waiting)
    request = {
        "uid": "question",
        "resource": {"resource": "pods"},
        "namespace": "shop",
        "object": pod_json("forged", uid=waiting.uid, node_name="a"),
    }
    status, text = await scene.post("/admission", {"request": request})
    assert (status, text) == (400, "pod shop/forged is there already: it can't be made")
    assert scene.core.queue.get(waiting.uid) is not None


async def test_a_review_fails_if_the_pod_cannot_be_read_in_time(
    scene: ServerScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(_: str) -> bytes:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(scene.api, "get", silent)
    monkeypatch.setattr(server, "_LOOK_UP", 0.05)
    status, text = await scene.post("/admission", {"request": BINDING})
    assert (status, text) == (503, unread_text("shop/web-0", "no answer within 0.05 s"))


async def test_all_extender_verbs_are_answered(scene: ServerScene) -> None:
    body = {"Pod": pod_json("web-0", requests={"cpu": "3"}), "NodeNames": ["a"]}
    status, text = await scene.post("/extender/filter", body)
    assert (status, json.loads(text)["NodeNames"]) == (200, [])
    assert (await scene.post("/extender/prioritize", body))[0] == 200
    assert (await scene.post("/extender/preempt", {"Pod": body["Pod"]}))[0] == 200


async def test_a_filter_request_waits_for_pods_that_passed_before(scene: ServerScene) -> None:
    scene.core.reservation(owner="nobody")
    scene.core.step()
    nodes = {"NodeNames": ["a"]}
    first, second = ({"Pod": pod_json(name), **nodes} for name in ("first", "second"))
    await scene.post("/extender/filter", first)
    answering = asyncio.create_task(scene.post("/extender/filter", second))
    for _ in range(20):
        await asyncio.sleep(0.01)
    assert not answering.done()
    scene.check.gone("uid-first", scene.core.clock.now())
    assert json.loads((await answering)[1])["NodeNames"] == ["a"]


@pytest.mark.parametrize("path", ["/admission", "/extender/filter"])
async def test_an_invalid_request_is_refused_with_a_message(scene: ServerScene, path: str) -> None:
    status, text = await scene.post(path, {"neither": "nor"})
    assert status == 400
    assert "missing required field" in text


@pytest.mark.parametrize("path", ["/admission", "/extender/filter"])
async def test_requests_are_refused_until_the_cluster_state_is_complete(
    scene: ServerScene, path: str
) -> None:
    scene.ready = False
    assert (await scene.post(path, {}))[0] == 503


async def test_an_admitted_binding_that_is_never_seen_lapses_by_itself(scene: ServerScene) -> None:
    scene.unbound_pods.upsert(None, pod("web-0"))
    await scene.review(uid="uid-web-0")
    scene.woken.clear()
    scene.core.clock.advance(UNSEEN_SECONDS)
    async with asyncio.timeout(30):
        await scene.woken.wait()
    assert scene.core.used("a") == 0


async def test_a_failed_renewal_of_the_certificate_is_tried_again(schedulers: Keys) -> None:
    made = ServerScene(schedulers)
    made.api.errors = [ServerError("out of order", status=500)]
    async with made.open():
        assert (await made.post("/extender/filter", {}))[0] == 400
    metric, labels = "tidelock_api_write_errors_total", {"write": "binder-server", "reason": "ServerError"}
    assert made.telemetry.registry.get_sample_value(metric, labels) == 1


async def test_a_port_in_use_is_an_error_that_names_it(schedulers: Keys) -> None:
    made = ServerScene(schedulers)
    with (
        socket.create_server((HOST, made.port)),
        pytest.raises(ListenError, match=f"{HOST}:{made.port}: Address"),
    ):
        await made.server.run()


async def test_the_leader_is_the_endpoint_of_its_service(scene: ServerScene) -> None:
    slices = [made for path, made in scene.api.objects.items() if path.endswith("/tidelock-binders")]
    slices += [patch for path, patch in scene.api.patches if path.endswith("/tidelock-binders")]
    assert {each["endpoints"][0]["addresses"][0] for each in slices} == {"10.0.0.7"}
    assert {each["ports"][0]["port"] for each in slices} == {scene.port}


@pytest.mark.parametrize(
    ("path", "counted"),
    [("/admission/none", "admission"), ("/extender/filter", "extender"), ("/metrics", "other")],
)
async def test_an_unauthenticated_caller_is_refused_and_counted(
    scene: ServerScene, path: str, counted: str
) -> None:
    status, _ = await scene.ask(path, {}, scene.tls())
    metric = "tidelock_refused_callers_total"
    counts = {
        each: scene.telemetry.registry.get_sample_value(metric, {"path": each})
        for each in ("admission", "extender", "other")
    }

    assert status == 404
    assert counts == {each: float(each == counted) for each in counts}


async def test_an_authenticated_caller_is_not_counted_as_refused(scene: ServerScene) -> None:
    scene.unbound_pods.upsert(None, pod("web-0"))
    await scene.review(uid="uid-web-0")
    metric = "tidelock_refused_callers_total"
    assert scene.telemetry.registry.get_sample_value(metric, {"path": "admission"}) == 0
