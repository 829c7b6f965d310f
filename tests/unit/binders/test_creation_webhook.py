"""Reviews of creations between the decisions of a loop."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from builders import NOW, Json, node
from tidelock.binders import creation_webhook
from tidelock.binders.creation_reviews import read_creation
from tidelock.binders.creation_webhook import CreationWebhook, answerable
from tidelock.binders.reviews import BadReviewError
from tidelock.framework.rejections import shortage_text
from tidelock.ledger.ledger import Ledger
from tidelock.model.answer import ANSWER, SIGNATURE
from tidelock.model.api.reservation import Phase
from tidelock.model.reservation import Reservation, decode_reservation
from unit.binders.test_creation_reviews import creation, patch_of
from unit.scheduler.machinery import Core


class Scene:
    """A node of two cores, and a webhook. A wake of the loop decides in the next turn of the event loop."""

    def __init__(self, *, decides: bool = True) -> None:
        self.core = Core(node("node-a", cpu="2"))
        self.ledger: Ledger = self.core.ledger
        self.ledger.answers.keys.use(b"k" * 32)
        self.requests = 0
        self.decides = decides
        self.webhook = CreationWebhook(self.ledger, self.core.clock, self.wake, lambda: None, self.note)

    def note(self) -> None:
        self.requests += 1

    def wake(self) -> None:
        if self.decides:
            asyncio.get_running_loop().call_soon(self.decide)

    def decide(self) -> None:
        for _ in range(3):
            self.webhook.decided(self.core.decider.step(self.core.clock.now()).effects.answers)

    async def ask(self, metadata: Json | None = None, **spec: Any) -> tuple[Json, str]:
        """Ask about a creation, and return the annotations of the response and the result."""
        response, result = await self.webhook.review(creation(metadata, spec))
        if "patch" not in json.loads(response)["response"]:
            return {}, result
        (part,) = patch_of(response)
        found: Json = part["value"]
        return found, result

    def stored(self, annotations: Json, name: str = "web-0", **spec: Any) -> Reservation:
        """Return the object that the API server stores with these annotations."""
        review = read_creation(creation({"name": name}, spec), "n", NOW)
        plain = json.loads(creation({"name": name}, spec))["request"]["object"]
        plain["metadata"] |= {
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "generation": 1,
            "creationTimestamp": "2027-01-15T08:00:00Z",
            "annotations": annotations,
        }
        assert review.name == name
        return decode_reservation(json.dumps(plain).encode())

    def reserved(self) -> int:
        return self.core.reserved()


def status_of(annotations: Json) -> Json:
    status: Json = json.loads(annotations[ANSWER])["status"]
    return status


async def test_a_grant_has_the_node_and_holds_its_capacity() -> None:
    scene = Scene()
    annotations, result = await scene.ask(resources={"cpu": "2"})
    assert (result, scene.requests) == ("granted", 1)
    assert annotations.keys() == {ANSWER, SIGNATURE}
    status = status_of(annotations)
    assert (status["phase"], status["nodeName"], status["resources"]) == ("Active", "node-a", {"cpu": "2"})
    assert scene.reserved() == 2000


async def test_the_object_takes_over_what_its_creation_was_granted() -> None:
    scene = Scene()
    annotations, _ = await scene.ask(resources={"cpu": "2"})
    scene.core.event_handlers.reservations.upsert(None, scene.stored(annotations, resources={"cpu": "2"}))
    (entry,) = scene.ledger.entries.values()
    assert (entry.phase, entry.node, entry.unseen) == (Phase.ACTIVE, "node-a", False)
    assert scene.reserved() == 2000


async def test_a_refusal_has_the_numbers_and_holds_nothing() -> None:
    scene = Scene()
    annotations, result = await scene.ask(resources={"cpu": "3"})
    assert result == "refused"
    status = status_of(annotations)
    assert status["phase"] == "Pending"
    assert shortage_text("cpu", "3", "2") in status["conditions"][0]["message"]
    assert (scene.reserved(), scene.ledger.entries) == (0, {})


async def test_now_or_never_is_rejected_in_the_answer_and_stays_so() -> None:
    scene = Scene()
    spec: Json = {"resources": {"cpu": "3"}, "pendingDeadlineSeconds": 0}
    annotations, result = await scene.ask(**spec)
    assert (result, status_of(annotations)["phase"]) == ("refused", "Rejected")
    scene.core.event_handlers.reservations.upsert(None, scene.stored(annotations, **spec))
    scene.core.event_handlers.nodes.upsert(None, node("node-b", cpu="4"))
    scene.decide()
    (entry,) = scene.ledger.entries.values()
    assert (entry.phase, scene.reserved()) == (Phase.REJECTED, 0)


async def test_a_dry_run_is_answered_and_holds_nothing() -> None:
    scene = Scene()
    response, result = await scene.webhook.review(creation(dryRun=True))
    assert result == "granted"
    assert patch_of(response)
    assert (scene.reserved(), scene.ledger.entries) == (0, {})


async def test_creations_of_one_name_are_decided_apart() -> None:
    scene = Scene()
    first, second = await asyncio.gather(scene.ask(resources={"cpu": "2"}), scene.ask(resources={"cpu": "2"}))
    assert sorted((first[1], second[1])) == ["granted", "refused"]
    assert scene.reserved() == 2000


async def test_a_creation_without_a_decision_in_time_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creation_webhook, "_PATIENCE", 0.01)
    scene = Scene(decides=False)
    assert await scene.ask() == ({}, "late")
    assert scene.ledger.entries == {}


async def test_a_review_that_is_broken_off_holds_nothing() -> None:
    scene = Scene(decides=False)
    task = asyncio.create_task(scene.ask())
    await asyncio.sleep(0)
    assert len(scene.ledger.entries) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scene.ledger.entries == {}


async def test_an_answer_of_the_client_is_refused() -> None:
    scene = Scene()
    response, result = await scene.webhook.review(creation({"name": "web-0", "annotations": {ANSWER: "{}"}}))
    plain = json.loads(response)["response"]
    assert (result, plain["allowed"]) == ("forged", False)
    assert "are written by the operator alone" in plain["status"]["message"]


@pytest.mark.parametrize(
    "spec",
    [
        {"anyOf": "set"},
        {"startAt": "2027-01-16T08:00:00Z", "ttlSeconds": 60},
        {"group": {"name": "train", "uid": "uid-train", "members": 2, "minMembers": 2}},
        {"resources": {"cpu": "much"}},
        {"answer": None},
    ],
)
async def test_what_can_not_be_decided_alone_is_not_answered(spec: Json) -> None:
    scene = Scene()
    assert await scene.ask(**spec) == ({}, "unanswered")
    assert scene.ledger.entries == {}


def test_a_plain_reservation_can_be_answered() -> None:
    assert answerable(read_creation(creation(), "n", NOW).reservation)


async def test_a_body_that_is_no_review_is_an_error() -> None:
    scene = Scene()
    with pytest.raises(BadReviewError):
        await scene.webhook.review(b"{}")


async def test_keys_that_come_allow_decisions() -> None:
    given: list[Callable[[], None]] = []
    core = Core(listed=False)
    given.append(core.event_handlers.await_resource("answers"))
    core.list_all()
    assert not core.event_handlers.ready
    given[0]()
    assert core.event_handlers.ready
