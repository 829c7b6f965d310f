"""The controller creates and deletes groups, and writes conditions, whatever order events have."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from builders import NAMESPACE, Json, encode
from tidelock.integrations.provisioning_requests.controller import ProvisioningRequestController
from tidelock.integrations.provisioning_requests.request import decode_request
from tidelock.kube.client import RESERVATIONGROUPS
from tidelock.kube.errors import (
    AdmissionUnavailable,
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
)
from tidelock.model.reservation_group import decode_group
from unit.integrations.provisioning_requests.requests import (
    ACTIVE,
    PATH,
    TEMPLATE,
    conditions,
    ended,
    request_json,
    template_path,
)
from unit.scheduler.machinery import Shell, turns

EXPIRED = ended("Expired", "Expired", "the time is over")


class Scene:
    """A controller, and the API server."""

    def __init__(self) -> None:
        shell = Shell()
        self.api, self.clock, self.isolation = shell.api, shell.clock, shell.isolation
        self.tasks = shell.tasks
        self.controller = ProvisioningRequestController(shell.context)
        self.controller.groups.synced()
        self.api.objects[template_path()] = {"template": TEMPLATE}

    async def ask(self, **fields: Any) -> None:
        """Create a request, and deliver it by the watch."""
        self.api.objects[PATH] = request_json(**fields)
        await self.see()

    async def see(self) -> None:
        """Deliver the stored request by the watch."""
        self.controller.upsert(None, decode_request(encode(self.api.objects[PATH])))
        await turns(40)

    @property
    def group_path(self) -> str:
        key = decode_request(encode(self.api.objects[PATH])).group_key
        return RESERVATIONGROUPS.item(key.name, key.namespace)

    async def decide(self, status: Json) -> None:
        """Give the group a status, and deliver it by the watch."""
        self.api.edit(self.group_path, {"status": status})
        self.controller.groups.upsert(None, decode_group(encode(self.api.objects[self.group_path])))
        await turns(40)

    async def lose_group(self) -> None:
        """Delete the group, and deliver that by the watch."""
        last = decode_group(encode(self.api.objects.pop(self.group_path)))
        self.controller.groups.remove(last)
        await turns(40)

    @property
    def status(self) -> Json:
        status: Json = self.api.objects[PATH]["status"]
        return status

    def message(self, kind: str) -> str:
        return next(str(each["message"]) for each in self.status["conditions"] if each["type"] == kind)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        started = asyncio.Event()
        started.set()
        running = asyncio.create_task(self.controller.run(started))
        await turns()
        yield
        running.cancel()
        await asyncio.wait([running])
        assert not self.isolation.faults


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    async with made.open():
        yield made


async def test_a_request_gets_a_group_and_is_accepted(scene: Scene) -> None:
    await scene.ask()
    made = scene.api.objects[scene.group_path]
    assert made["spec"]["members"][0]["count"] == 2
    assert conditions(scene.status) == {"Accepted": "True", "Provisioned": "False"}
    await scene.see()
    assert scene.api.verbs.count("POST") == 1


async def test_a_request_is_provisioned_when_its_group_is_active(scene: Scene) -> None:
    await scene.ask()
    await scene.decide(ACTIVE)
    assert conditions(scene.status) == {"Accepted": "True", "Provisioned": "True"}


async def test_a_request_of_another_class_is_left_alone(scene: Scene) -> None:
    await scene.ask(class_name="check-capacity.autoscaling.x-k8s.io")
    assert scene.api.asked == []
    assert scene.status == {}


async def test_the_group_is_deleted_after_the_final_condition_is_stored(scene: Scene) -> None:
    await scene.ask()
    await scene.decide(ACTIVE)
    path = scene.group_path
    await scene.decide(EXPIRED)
    assert conditions(scene.status)["BookingExpired"] == "True"
    assert path not in scene.api.objects
    assert scene.api.verbs[-2:] == ["PUT", "DELETE"]


async def test_a_group_that_is_deleted_by_hand_is_made_again_unless_its_capacity_was_promised(
    scene: Scene,
) -> None:
    await scene.ask()
    await scene.decide(ended("Pending", "InsufficientCapacity", "no capacity"))
    await scene.lose_group()
    assert scene.api.verbs.count("POST") == 2
    await scene.decide(ACTIVE)
    await scene.lose_group()
    assert conditions(scene.status)["CapacityRevoked"] == "True"
    assert scene.api.verbs.count("POST") == 2


async def test_a_group_that_no_watch_shows_is_asked_for_again_later(scene: Scene) -> None:
    await scene.ask()
    del scene.api.objects[scene.group_path]  # no watch has shown it, and none shows its end
    scene.clock.advance(11)
    await scene.see()
    assert scene.group_path in scene.api.objects


async def test_a_bad_parameter_fails_the_request_without_a_group(scene: Scene) -> None:
    await scene.ask(parameters={"ttlSeconds": "soon"})
    assert conditions(scene.status)["Failed"] == "True"
    assert 'spec.parameters.ttlSeconds: "soon"' in scene.message("Failed")
    assert "POST" not in scene.api.verbs


async def test_a_missing_template_fails_the_request_by_name(scene: Scene) -> None:
    await scene.ask(pod_sets={"template": 1, "absent": 1})
    expected = 'spec.podSets[1].podTemplateRef.name: "absent": should name a PodTemplate of the namespace'
    assert scene.message("Failed") == expected


@pytest.mark.parametrize("stored", [{}, {"template": None}, {"template": {"spec": {"containers": []}}}])
async def test_a_template_without_containers_fails_the_request(scene: Scene, stored: Json) -> None:
    scene.api.objects[template_path()] = stored
    await scene.ask()
    assert scene.message("Failed").endswith('"template": should name a PodTemplate with containers')


async def test_a_refused_group_fails_the_request_with_the_words_of_the_api_server(scene: Scene) -> None:
    scene.api.refuses["POST"] = Invalid("spec.members: at most 256", status=422)
    await scene.ask(pod_sets={"template": 257})
    assert scene.message("Failed") == "the ReservationGroup is refused: spec.members: at most 256"


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("exceeded quota", status=403),
        AdmissionUnavailable("exceeded quota by a policy that is not ready", status=422),
        Conflict("another request has met the exceeded quota", status=409),
        NotFound("exceeded quota, or no such kind", status=404),
    ],
)
async def test_a_group_that_can_not_be_created_yet_is_tried_again_and_the_status_says_why(
    scene: Scene, error: ApiError
) -> None:
    """Regression: a 422 of a policy that could not be evaluated failed the request for good.

    A second 409 or 404 ended the tries, as if the request itself had changed.
    """
    scene.api.refuses["POST"] = error
    await scene.ask()
    assert conditions(scene.status) == {"Accepted": "True", "Provisioned": "False"}
    assert "exceeded quota" in scene.message("Provisioned")
    for _ in range(12):
        assert scene.tasks.await_pause()
        await turns(40)
    assert max(scene.tasks.pauses) <= 60
    del scene.api.refuses["POST"]
    scene.tasks.await_pause()
    await turns(40)
    assert scene.group_path in scene.api.objects


async def test_a_creation_with_a_lost_answer_is_not_repeated_for_ever(scene: Scene) -> None:
    scene.api.objects[PATH] = request_json()
    scene.api.objects[scene.group_path] = {"metadata": {"name": "there", "uid": "u", "resourceVersion": "1"}}
    await scene.see()
    assert scene.api.verbs.count("POST") == 1
    assert "can't be created" not in scene.message("Provisioned")


async def test_a_status_that_the_api_server_refuses_for_a_moment_is_written_again(scene: Scene) -> None:
    scene.api.refuses["PUT"] = ServerError("etcd is away", status=500)
    await scene.ask()
    assert scene.status == {}
    del scene.api.refuses["PUT"]
    scene.tasks.await_pause()
    await turns(40)
    assert conditions(scene.status) == {"Accepted": "True", "Provisioned": "False"}


async def test_a_group_with_the_name_and_another_owner_does_not_count(scene: Scene) -> None:
    await scene.ask()
    forged = json_of(scene)
    forged["metadata"]["ownerReferences"][0]["uid"] = "uid-forged"
    scene.controller.groups.upsert(None, decode_group(encode(forged | {"status": ACTIVE})))
    await scene.see()
    assert conditions(scene.status)["Provisioned"] == "False"


async def test_the_next_process_goes_on_where_the_former_one_ended(scene: Scene) -> None:
    await scene.ask()
    await scene.decide(ACTIVE)
    stored = scene.api.objects
    following = Scene()
    following.api.objects = stored
    following.controller.groups.upsert(None, decode_group(encode(stored[following.group_path])))
    async with following.open():
        await following.see()
        assert following.api.asked == []
        await following.decide(EXPIRED)
    assert conditions(following.status)["BookingExpired"] == "True"


async def test_nothing_is_concluded_before_all_groups_are_known() -> None:
    """Check that a promised capacity is not revoked because the watch of groups is late."""
    scene = Scene()
    scene.controller.groups.listed.clear()
    async with scene.open():
        await scene.ask(status=promised())
        assert scene.api.asked == []


def json_of(scene: Scene) -> Json:
    stored = scene.api.objects[scene.group_path]
    metadata = stored["metadata"] | {"ownerReferences": [dict(stored["metadata"]["ownerReferences"][0])]}
    return stored | {"metadata": metadata}


def promised() -> Json:
    given = {"lastTransitionTime": "2027-01-15T08:00:00Z", "message": "", "reason": "CapacityIsFound"}
    return {"conditions": [{"type": "Provisioned", "status": "True", **given}]}


async def test_a_deleted_request_is_forgotten(scene: Scene) -> None:
    await scene.ask()
    scene.controller.remove(decode_request(encode(scene.api.objects[PATH])))
    await scene.decide(ACTIVE)
    assert conditions(scene.status)["Provisioned"] == "False"
    assert scene.api.objects[scene.group_path]["metadata"]["namespace"] == NAMESPACE
