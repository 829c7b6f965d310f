"""The annotations with which autoscalers keep a node, while it holds reservations."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from builders import NAMESPACE, encode, node_json, quota
from tidelock.integrations.autoscalers.node_protection import (
    CLUSTER_AUTOSCALER,
    KARPENTER,
    PROTECTED,
    NodeProtection,
)
from tidelock.kube.client import NODES
from tidelock.model.meta import Key
from tidelock.model.nodes import decode_node
from unit.integrations.autoscalers.applying_api import ApplyingApi
from unit.scheduler.machinery import Shell, turns

PATH = NODES.item("node-a")
ALL = {PROTECTED: "true", CLUSTER_AUTOSCALER: "true", KARPENTER: "true"}


class Scene:
    """A scheduler with a node in a namespace that may keep nodes, and the writer of annotations."""

    def __init__(self, annotations: dict[str, str] | None = None) -> None:
        self.api = ApplyingApi()
        self.api.objects[PATH] = node_json("node-a", annotations=annotations)
        self.shell = Shell()
        self.see()
        self.allow(autoscaling="KeepNodes")
        context = replace(self.shell.context, client=self.api)
        self.protection = NodeProtection(context, self.shell.ledger, self.shell.decider.columns, enabled=True)

    def allow(self, **fields: Any) -> None:
        quotas = self.shell.decider.objects.reservation_quotas
        quotas.upsert(quotas.get("team", NAMESPACE), quota(**fields))

    def see(self) -> None:
        """Deliver the stored node by the watch."""
        self.shell.event_handlers.nodes.upsert(None, decode_node(encode(self.api.objects[PATH])))

    def reserve(self) -> None:
        self.shell.reservation()
        self.shell.decide()

    def release(self) -> None:
        entry = self.shell.ledger.entries[Key(NAMESPACE, "lock")]
        self.shell.event_handlers.reservations.remove(entry.reservation)

    async def look(self) -> dict[str, str]:
        """Write the differences, and return the annotations of the node."""
        await self.protection.look()
        await self.shell.settle()
        annotations: dict[str, str] = self.api.objects[PATH]["metadata"].get("annotations", {})
        return annotations


async def test_a_node_is_annotated_while_it_holds_a_reservation() -> None:
    scene = Scene({"example.org/owner": "ann"})
    assert await scene.look() == {"example.org/owner": "ann"}
    scene.reserve()
    assert await scene.look() == {"example.org/owner": "ann", **ALL}
    assert scene.api.asked[0].body["metadata"]["uid"] == "uid-node-a"
    scene.see()
    scene.release()
    assert await scene.look() == {"example.org/owner": "ann"}
    scene.see()
    await scene.look()
    assert len(scene.api.asked) == 2


async def test_the_answer_to_a_write_counts_before_the_watch_shows_it() -> None:
    scene = Scene()
    scene.reserve()
    await scene.look()
    await scene.look()
    assert len(scene.api.asked) == 1
    scene.release()
    assert await scene.look() == {}


async def test_another_value_is_left_alone_and_the_other_autoscaler_is_told() -> None:
    scene = Scene({CLUSTER_AUTOSCALER: "false"})
    scene.reserve()
    told = {CLUSTER_AUTOSCALER: "false", KARPENTER: "true", PROTECTED: "true"}
    assert await scene.look() == told
    scene.see()
    scene.release()
    assert await scene.look() == {CLUSTER_AUTOSCALER: "false"}


async def test_a_value_that_somebody_else_wrote_before_stays_afterwards() -> None:
    scene = Scene({KARPENTER: "true"})
    scene.reserve()
    assert await scene.look() == ALL
    scene.see()
    scene.release()
    assert await scene.look() == {KARPENTER: "true"}


async def test_a_value_that_somebody_else_changes_meanwhile_is_left_alone() -> None:
    scene = Scene()
    scene.reserve()
    await scene.look()
    scene.api.edit(PATH, {"metadata": {"annotations": {KARPENTER: "false"}}})
    scene.see()
    await scene.look()
    assert len(scene.api.asked) == 1


async def test_a_race_with_another_writer_is_lost_and_decided_by_the_newer_version() -> None:
    scene = Scene()
    scene.reserve()
    scene.api.edit(PATH, {"metadata": {"annotations": {KARPENTER: "false"}}})  # the watch is behind
    assert await scene.look() == {KARPENTER: "false"}
    scene.see()
    assert await scene.look() == {KARPENTER: "false", CLUSTER_AUTOSCALER: "true", PROTECTED: "true"}


async def test_an_annotation_that_somebody_removes_is_written_again() -> None:
    scene = Scene()
    scene.reserve()
    await scene.look()
    scene.api.edit(PATH, {"metadata": {"annotations": {KARPENTER: None}}})
    scene.see()
    assert await scene.look() == ALL


async def test_the_next_process_removes_annotations_of_an_earlier_one_even_if_it_protects_nothing() -> None:
    scene = Scene()
    scene.reserve()
    await scene.look()
    scene.see()
    context = replace(scene.shell.context, client=scene.api)
    scene.protection = NodeProtection(context, scene.shell.ledger, scene.shell.decider.columns, enabled=False)
    assert await scene.look() == {}


@pytest.mark.parametrize(
    ("fields", "kept"), [({"weight": 1}, False), ({"autoscaling": "RequestNodes"}, True)]
)
async def test_the_quota_of_the_namespace_decides(fields: dict[str, Any], kept: bool) -> None:
    scene = Scene()
    scene.reserve()
    await scene.look()
    scene.see()
    scene.allow(**fields)
    assert await scene.look() == (ALL if kept else {})


async def test_a_node_that_is_gone_is_not_written() -> None:
    scene = Scene()
    scene.reserve()
    known = decode_node(encode(scene.api.objects[PATH]))
    scene.shell.event_handlers.nodes.remove(known)
    await scene.look()
    assert scene.api.asked == []


async def test_another_node_of_the_same_name_gets_nothing_that_was_meant_for_the_last_one() -> None:
    scene = Scene()
    scene.reserve()
    scene.api.gate.clear()
    await scene.protection.look()
    await turns()
    await scene.protection.look()  # one write of a node is under way at most
    scene.api.edit(PATH, {"metadata": {"uid": "another"}})
    scene.api.gate.set()
    await scene.shell.settle()
    assert len(scene.api.asked) == 1
    assert scene.api.objects[PATH]["metadata"]["annotations"] == {}


@pytest.mark.usefixtures("sleeps")
async def test_the_first_look_waits_until_all_objects_are_known() -> None:
    scene = Scene()
    scene.reserve()
    started = asyncio.Event()
    running = asyncio.create_task(scene.protection.run(started))
    await turns()
    assert scene.api.asked == []
    started.set()
    await turns()
    running.cancel()
    await asyncio.wait([running])
    assert len(scene.api.asked) == 1
