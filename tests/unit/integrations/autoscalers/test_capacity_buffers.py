"""CapacityBuffers and their templates, as they follow the requests."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from builders import encode
from tidelock.integrations.autoscalers import capacity_buffers
from tidelock.integrations.autoscalers.capacity_buffers import (
    CAPACITY_BUFFERS,
    POD_TEMPLATES,
    CapacityBufferController,
    decode_known,
)
from tidelock.integrations.autoscalers.node_requests import NodeRequest
from tidelock.model.meta import Key
from unit.integrations.autoscalers.applying_api import ApplyingApi
from unit.scheduler.machinery import Shell

KEY = Key("shop", "tidelock-0123456789abcdef")
BUFFER = CAPACITY_BUFFERS.item(KEY.name, KEY.namespace)
TEMPLATE = POD_TEMPLATES.item(KEY.name, KEY.namespace)


def request(replicas: int = 1, cpu: str = "2") -> NodeRequest:
    container = {"name": "c0", "image": "placeholder", "resources": {"requests": {"cpu": cpu}}}
    return NodeRequest({"spec": {"containers": [container]}}, replicas)


class Scene:
    """A controller of buffers, and the requests that tests make."""

    def __init__(self) -> None:
        self.api = ApplyingApi()
        self.shell = Shell()
        self.wanted: dict[Key, NodeRequest] = {}
        self.controller = self.make()
        self.synced()

    def make(self) -> CapacityBufferController:
        return CapacityBufferController(replace(self.shell.context, client=self.api), self)

    @property
    def outdated(self) -> bool:
        return False

    def collect(self, now: float, into: dict[Key, NodeRequest]) -> Iterator[None]:
        assert now == self.shell.clock.now()
        yield
        into |= self.wanted

    def synced(self) -> None:
        """Deliver the stored objects by the watches."""
        for path, stored in self.api.objects.items():
            copies = self.controller.buffers if "capacitybuffers" in path else self.controller.templates
            copies.upsert(None, decode_known(encode(stored)))
        self.controller.buffers.synced()
        self.controller.templates.synced()

    async def look(self, request: NodeRequest | None) -> None:
        """Change the request, and write the differences."""
        self.wanted = {} if request is None else {KEY: request}
        await self.controller.look()
        await self.shell.settle()


async def test_a_request_gets_a_template_and_then_a_buffer_and_both_go_with_it() -> None:
    scene = Scene()
    await scene.look(request(2))
    assert [asked.path for asked in scene.api.asked] == [TEMPLATE, BUFFER]
    template, buffer = scene.api.objects[TEMPLATE], scene.api.objects[BUFFER]
    assert template["template"] == request().template
    assert buffer["apiVersion"] == "autoscaling.x-k8s.io/v1beta1"
    assert buffer["spec"] == {
        "podTemplateRef": {"name": KEY.name},
        "replicas": 2,
        "provisioningStrategy": "buffer.x-k8s.io/active-capacity",
    }
    assert (
        template["metadata"]["labels"]
        == buffer["metadata"]["labels"]
        == {"tidelock.dev/node-request": "true"}
    )
    await scene.look(request(2))
    assert len(scene.api.asked) == 2
    await scene.look(None)
    assert [asked.path for asked in scene.api.asked[2:]] == [BUFFER, TEMPLATE]
    assert scene.api.objects == {}


async def test_only_changed_objects_are_written() -> None:
    scene = Scene()
    await scene.look(request(1))
    await scene.look(request(3))
    assert [asked.path for asked in scene.api.asked[2:]] == [BUFFER]
    await scene.look(request(3, cpu="4"))
    assert [asked.path for asked in scene.api.asked[3:]] == [TEMPLATE]


async def test_fewer_pods_beside_more_nodes_never_look_like_one_more_node() -> None:
    scene = Scene()
    await scene.look(request(2))
    await scene.look(request(1, cpu="3"))
    assert [asked.path for asked in scene.api.asked[2:]] == [BUFFER, TEMPLATE]


async def test_the_next_process_keeps_needed_objects_and_removes_the_rest() -> None:
    scene = Scene()
    await scene.look(request())
    scene.controller = scene.make()
    await scene.controller.look()  # nothing is known yet
    scene.synced()
    await scene.look(request())
    assert len(scene.api.asked) == 2
    await scene.look(None)
    assert scene.api.objects == {}


async def test_an_object_that_somebody_removes_is_written_again() -> None:
    scene = Scene()
    await scene.look(request())
    scene.controller.templates.remove(decode_known(encode(scene.api.objects.pop(TEMPLATE))))
    await scene.look(request())
    assert TEMPLATE in scene.api.objects


async def test_an_older_event_of_the_watch_does_not_replace_the_answer_to_a_write() -> None:
    scene = Scene()
    await scene.look(request(1))
    older = decode_known(encode(scene.api.objects[BUFFER]))
    await scene.look(request(2))
    scene.controller.buffers.upsert(None, older)
    await scene.look(request(2))
    assert len(scene.api.asked) == 3


async def test_nothing_is_written_before_the_watches_have_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """So a missing CRD costs log lines of its watch, and no request."""
    monkeypatch.setattr(capacity_buffers, "_GLANCE", 0.01)
    scene = Scene()
    scene.controller = scene.make()
    scene.wanted = {KEY: request()}
    started = asyncio.Event()
    started.set()
    scene.controller.templates.synced()
    running = asyncio.create_task(scene.controller.run(started))
    await asyncio.sleep(0.1)
    assert scene.api.asked == []
    scene.controller.buffers.synced()
    while len(scene.api.asked) < 2:  # noqa: ASYNC110 -- ends with the test's time-out
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    running.cancel()
    await asyncio.wait([running])
    assert [asked.path for asked in scene.api.asked] == [TEMPLATE, BUFFER]


async def test_a_crd_that_vanishes_costs_growing_pauses() -> None:
    scene = Scene()
    scene.api.absent.add("capacitybuffers")
    for _ in range(10):
        await scene.look(request())
        await scene.look(request())
        scene.shell.tasks.await_pause()
    pauses = scene.shell.tasks.pauses
    assert len(pauses) == 10
    assert pauses[-1] > 10 * pauses[0]
    scene.api.absent.clear()
    await scene.look(request())
    assert BUFFER in scene.api.objects


async def test_a_request_that_ends_while_its_buffer_is_refused_is_given_up() -> None:
    scene = Scene()
    scene.api.absent.add("capacitybuffers")
    await scene.look(request())
    scene.shell.tasks.await_pause()
    await scene.look(None)
    assert scene.api.objects == {}
