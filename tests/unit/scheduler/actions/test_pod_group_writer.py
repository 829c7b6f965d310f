"""The condition of PodGroups."""

from typing import Any

import pytest

from builders import NAMESPACE, Json, encode, node
from tidelock.kube.client import PODGROUPS
from tidelock.kube.errors import AdmissionUnavailable, ApiError, Forbidden, NotFound, Unreachable
from tidelock.model.pod_group import decode_pod_group
from tidelock.scheduler.core.pod_group_scheduler import PodGroupResult, unsatisfied_text
from unit.scheduler.machinery import Shell, turns
from unit.scheduler.pod_groups import GROUPS, deliver, members, pod_group_json

PATH = PODGROUPS.item("train", NAMESPACE)
SCHEDULED = {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"}


class Groups(Shell):
    """A scheduler with one stored PodGroup."""

    def __init__(self, cpu: str = "2", **fields: Any) -> None:
        super().__init__(node(cpu=cpu), configuration=GROUPS)
        self.api.objects[PATH] = pod_group_json(**fields)
        self.see()

    def see(self) -> None:
        """Deliver the stored version by the watch."""
        deliver(self, decode_pod_group(encode(self.api.objects[PATH])))

    async def result(self, *, scheduled: bool, message: str = "") -> None:
        """Write a result of the group."""
        group = self.decider.objects.pod_groups.get("train", NAMESPACE)
        assert group is not None
        reason = "Scheduled" if scheduled else "Unschedulable"
        self.groups.record([PodGroupResult(group, scheduled, reason, message)])
        await self.settle()

    @property
    def condition(self) -> Json:
        (found,) = self.api.objects[PATH]["status"]["conditions"]
        return dict(found)


async def test_the_result_of_a_decision_is_written() -> None:
    shell = Groups()
    shell.add(*members(3))
    step = shell.decider.step(shell.clock.now())
    shell.groups.record(step.pod_groups)
    await shell.settle()

    written = shell.condition
    assert written.pop("message").startswith(unsatisfied_text(3, 2, 0))
    assert written == {
        "type": "PodGroupInitiallyScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "lastTransitionTime": "2027-01-15T08:00:00Z",
        "observedGeneration": 1,
    }
    (asked,) = shell.api.asked
    assert (asked.method, asked.path) == ("PATCH", f"{PATH}/status")
    assert asked.content_type == "application/strategic-merge-patch+json"
    assert asked.body["metadata"] == {"uid": "uid-train"}


async def test_the_same_result_is_written_once() -> None:
    shell = Groups()
    await shell.result(scheduled=False, message="no room")
    shell.see()
    await shell.result(scheduled=False, message="no room")
    assert shell.api.verbs == ["PATCH"]


async def test_another_message_keeps_the_time_of_the_transition() -> None:
    shell = Groups()
    await shell.result(scheduled=False, message="no room")
    shell.see()
    shell.clock.advance(60)
    await shell.result(scheduled=False, message="less room")
    assert shell.condition["lastTransitionTime"] == "2027-01-15T08:00:00Z"
    await shell.result(scheduled=True)
    assert shell.condition["lastTransitionTime"] == "2027-01-15T08:01:00Z"


async def test_a_group_stays_scheduled() -> None:
    shell = Groups(conditions=[SCHEDULED])
    await shell.result(scheduled=False, message="an extra pod does not fit")
    assert shell.api.asked == []


async def test_a_group_stays_scheduled_before_the_watch_shows_the_condition() -> None:
    shell = Groups()
    await shell.result(scheduled=True)
    await shell.result(scheduled=False, message="an extra pod does not fit")
    assert shell.condition["status"] == "True"
    shell.see()
    await shell.result(scheduled=False, message="an extra pod does not fit")
    assert shell.api.verbs == ["PATCH"]


@pytest.mark.parametrize(
    "error", [Unreachable("no answer"), AdmissionUnavailable("not yet ready", status=403)]
)
async def test_a_write_without_an_answer_or_a_judgement_is_reported_and_repeated(
    error: ApiError, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: it was repeated every 5 s without any line in the log."""
    shell = Groups()
    shell.api.fails(error)
    group = decode_pod_group(encode(shell.api.objects[PATH]))
    shell.groups.record([PodGroupResult(group, scheduled=True)])
    await shell.tasks.drain(5.0)
    assert shell.condition["status"] == "True"
    assert shell.api.verbs == ["PATCH", "PATCH"]
    labels = {"write": "podgroup", "reason": type(error).__name__}
    assert shell.metric("tidelock_api_write_errors_total", **labels) == 1
    assert caplog.messages == ["a condition was not written"]


async def test_a_newer_result_follows_the_write_under_way() -> None:
    shell = Groups()
    shell.api.gate.clear()
    group = decode_pod_group(encode(shell.api.objects[PATH]))
    shell.groups.record([PodGroupResult(group, scheduled=False, reason="Unschedulable", message="no room")])
    await turns()
    shell.groups.record([PodGroupResult(group, scheduled=True)])
    shell.groups.record([PodGroupResult(group, scheduled=False, reason="Unschedulable", message="late")])
    shell.api.gate.set()
    await shell.settle()
    assert shell.condition["status"] == "True"


async def test_a_refused_write_is_not_repeated() -> None:
    shell = Groups()
    shell.api.fails(Forbidden("no right", status=403))
    await shell.result(scheduled=True)
    assert shell.api.verbs == ["PATCH"]
    shell.api.fails(NotFound("it is gone", status=404))
    await shell.result(scheduled=True)
    await shell.result(scheduled=True)
    assert shell.condition["status"] == "True"


async def test_nothing_is_written_about_another_group_of_the_name() -> None:
    shell = Groups()
    former = decode_pod_group(encode(shell.api.objects[PATH]))
    shell.api.objects[PATH]["metadata"]["uid"] = "uid-next"
    shell.see()
    shell.groups.record([PodGroupResult(former, scheduled=True)])
    await shell.settle()
    shell.event_handlers.others["pod_groups"].remove(former)
    shell.groups.record([PodGroupResult(former, scheduled=True)])
    await shell.settle()
    assert shell.api.asked == []
