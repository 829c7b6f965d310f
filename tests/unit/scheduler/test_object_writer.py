"""Writes of a status: when they are sent, repeated and given up, for objects of any kind."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from builders import NAMESPACE
from tidelock.kube.client import RESERVATIONQUOTAS
from tidelock.kube.errors import Conflict, Invalid, NotFound, ServerError, TooManyRequests
from tidelock.model.meta import Key, ObjectMeta, OwnerReference
from tidelock.scheduler.actions.context import WriterContext
from tidelock.scheduler.actions.object_writer import ObjectWriter
from unit.scheduler.machinery import Shell, turns

KEY = Key(NAMESPACE, "team")
PATH = RESERVATIONQUOTAS.item("team", NAMESPACE)


@dataclass
class Thing:
    """An object with a status that must be `{"wanted": generation}`."""

    meta: ObjectMeta
    status: dict[str, Any] = field(default_factory=dict)


class Writer(ObjectWriter):
    """Writes one thing."""

    def __init__(self, context: WriterContext) -> None:
        super().__init__(context, RESERVATIONQUOTAS, "status")
        meta = ObjectMeta("team", NAMESPACE, uid="uid-team", resource_version="1", generation=1)
        self.thing: Thing | None = Thing(meta)
        self.broken = False
        self.dropped = 0  # number of writes without an effect
        self.again: list[Key] = []

    def edit(self, **fields: Any) -> None:
        assert self.thing is not None
        self.thing = Thing(_changed(self.thing.meta, **fields), self.thing.status)

    def _stored(self, key: Key) -> Thing | None:
        assert key == KEY
        return self.thing

    def _differs(self, key: Key) -> bool:
        if self.broken:
            raise LookupError("a bug")
        thing = self._stored(key)
        return thing is not None and thing.status != {"wanted": thing.meta.generation}

    def _compare_later(self, key: Key) -> None:
        self.again.append(key)

    async def _write_difference(self, key: Key) -> None:
        thing = self._stored(key)
        assert thing is not None
        if self.dropped:
            self.dropped -= 1
            return
        wanted = {"wanted": thing.meta.generation}
        async with self.turn(thing.meta):
            await self._replace_status(thing.meta, wanted)
        thing.status = wanted


def _changed(meta: ObjectMeta, **fields: Any) -> ObjectMeta:
    names = ("name", "namespace", "uid", "resource_version", "generation", "owner_references")
    return ObjectMeta(**{name: getattr(meta, name) for name in names} | fields)


async def write(shell: Shell, writer: Writer) -> None:
    """Write until nothing differs, through all pauses."""
    writer.reconcile(KEY)
    await shell.settle()
    while writer.again or shell.tasks.await_pause():
        writer.again.clear()
        writer.reconcile(KEY)
        await shell.settle()


@pytest.fixture
async def shell() -> Shell:
    shell = Shell()
    metadata = {"name": "team", "namespace": NAMESPACE, "uid": "uid-team", "resourceVersion": "1"}
    shell.api.objects[PATH] = {"metadata": metadata, "status": {}}
    return shell


@pytest.fixture
def writer(shell: Shell) -> Writer:
    return Writer(shell.context)


async def test_a_difference_is_written_once(shell: Shell, writer: Writer) -> None:
    writer.reconcile(KEY)
    writer.reconcile(KEY)
    await shell.settle()
    writer.reconcile(KEY)
    await shell.settle()

    (asked,) = shell.api.asked
    assert (asked.method, asked.path) == ("PUT", f"{PATH}/status")
    assert asked.body["metadata"]["uid"] == "uid-team"
    assert asked.body["metadata"]["resourceVersion"] == "1"
    assert not writer.lags(KEY)


async def test_retries_back_off_to_five_seconds_or_to_sixty_after_a_permanent_error(
    shell: Shell, writer: Writer
) -> None:
    """Regression: each kind had its own pauses, and a refused Reservation was written every 5 s for ever."""
    shell.api.fails(*[ServerError("no", status=500)] * 12, *[Invalid("no", status=422)] * 12)
    await write(shell, writer)

    pauses = shell.tasks.pauses
    assert len(pauses) == 24
    assert min(pauses[6:12]) >= 2.5
    assert max(pauses[:12]) <= 5
    assert min(pauses[22:]) >= 30
    assert max(pauses) <= 60
    labels = {"write": "reservationquota", "reason": "Invalid"}
    assert shell.metric("tidelock_api_write_errors_total", **labels) == 12


async def test_a_retry_waits_for_as_long_as_the_server_asks(shell: Shell, writer: Writer) -> None:
    shell.api.fails(TooManyRequests("later", status=429, retry_after=7.0))
    await write(shell, writer)

    assert shell.tasks.pauses == [7.0]
    assert not writer.lags(KEY)


async def test_nothing_is_held_during_a_pause(shell: Shell, writer: Writer) -> None:
    """Regression: events and annotations had to wait for as long as one object was refused.

    Later only their tasks went on, which delayed the end of the process.
    """
    shell.api.fails(Invalid("no", status=422, retry_after=3600.0))
    writer.reconcile(KEY)
    assert shell.tasks.activity.busy()
    await shell.settle()
    writer.reconcile(KEY)
    assert len(shell.tasks) == 0
    assert shell.api.verbs == ["PUT"]
    assert writer.lags(KEY)


async def test_a_new_spec_ends_the_pause_after_a_refusal(shell: Shell, writer: Writer) -> None:
    shell.api.fails(Invalid("no", status=422, retry_after=3600.0))
    writer.reconcile(KEY)
    await shell.settle()
    writer.edit(generation=2)
    writer.reconcile(KEY)
    await shell.settle()

    assert shell.api.asked[-1].body["status"] == {"wanted": 2}
    shell.tasks.await_pause()  # which means nothing any more
    assert writer.again == []


async def test_a_new_spec_begins_with_the_shortest_pause_again(shell: Shell, writer: Writer) -> None:
    """In Kubernetes, events passed the pauses of a ReplicaSet, and each refusal doubled the next pause."""
    shell.api.refuses["PUT"] = Invalid("no", status=422)
    for generation in range(2, 22):
        writer.edit(generation=generation)
        writer.reconcile(KEY)
        await shell.settle()
    assert len(shell.tasks.pauses) == 20
    assert max(shell.tasks.pauses) <= 0.1


async def test_a_spec_that_is_edited_during_a_refused_write_is_written_at_once(
    shell: Shell, writer: Writer
) -> None:
    """Regression: the edit had to wait for the end of a pause of up to a minute."""
    shell.api.fails(Invalid("no", status=422, retry_after=3600.0))
    shell.api.gate.clear()
    writer.reconcile(KEY)
    await turns()
    writer.edit(generation=2)
    shell.api.gate.set()
    await shell.settle()

    assert writer.again == [KEY]
    await write(shell, writer)
    assert shell.api.objects[PATH]["status"] == {"wanted": 2}


@pytest.mark.parametrize("error", [Conflict("old", status=409), NotFound("gone", status=404)])
async def test_a_conflict_is_left_to_the_watch(
    shell: Shell, writer: Writer, error: Conflict | NotFound
) -> None:
    shell.api.fails(error)
    writer.reconcile(KEY)
    await shell.settle()

    assert shell.api.verbs == ["PUT"]
    assert writer.lags(KEY)


async def test_a_conflict_with_a_version_that_has_arrived_by_then_is_written_again(
    shell: Shell, writer: Writer
) -> None:
    shell.api.gate.clear()
    writer.reconcile(KEY)
    await turns()
    shell.api.edit(PATH, {})
    writer.edit(resource_version="2")
    shell.api.gate.set()
    await write(shell, writer)

    assert [asked.body["metadata"]["resourceVersion"] for asked in shell.api.asked] == ["1", "2"]


async def test_a_write_without_effect_is_repeated_with_growing_pauses(
    shell: Shell, writer: Writer, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: a status with a field that an older CRD drops was written again without any pause."""
    writer.dropped = 12
    await write(shell, writer)

    assert len(shell.tasks.pauses) == 12
    assert sum(shell.tasks.pauses) > 60
    labels = {"write": "reservationquota", "reason": "NoEffect"}
    assert shell.metric("tidelock_api_write_errors_total", **labels) == 12
    assert caplog.messages == ["a write had no effect"] * 12
    assert not writer.lags(KEY)


async def test_an_object_that_takes_the_name_of_a_written_one_is_compared_at_once(
    shell: Shell, writer: Writer
) -> None:
    shell.api.gate.clear()
    writer.reconcile(KEY)
    await turns()
    writer.edit(uid="another", resource_version="9")
    shell.api.gate.set()
    await shell.settle()

    assert shell.tasks.pauses == []
    assert writer.again == [KEY]


async def test_an_object_that_is_gone_is_not_written_again(shell: Shell, writer: Writer) -> None:
    shell.api.fails(ServerError("no", status=500))
    shell.api.gate.clear()
    writer.reconcile(KEY)
    await turns()
    writer.thing = None
    shell.api.gate.set()
    await shell.settle()
    assert shell.tasks.await_pause()
    writer.reconcile(KEY)

    assert shell.api.verbs == ["PUT"]
    assert writer.again == []


@pytest.mark.parametrize("found", ["nothing", "another"])
async def test_an_object_of_the_same_name_as_a_refused_one_begins_with_the_shortest_pause(
    shell: Shell, writer: Writer, found: str
) -> None:
    """Regression: a retry that found the object gone kept the long pause for the next one of the name."""
    shell.api.fails(*[Invalid("no", status=422)] * 9)
    for _ in range(9):
        writer.reconcile(KEY)
        await shell.settle()
        assert shell.tasks.await_pause()
    shell.api.fails(NotFound("gone", status=404), Invalid("no", status=422))
    shell.api.gate.clear()
    writer.reconcile(KEY)
    await turns()
    another = Thing(ObjectMeta("team", NAMESPACE, uid="another", resource_version="9", generation=1))
    writer.thing = another if found == "another" else None
    shell.api.gate.set()
    await shell.settle()
    writer.thing = another
    writer.reconcile(KEY)
    await shell.settle()

    assert shell.tasks.pauses[-1] <= 0.1


async def test_an_object_that_is_gone_before_its_retry_begins_leaves_no_pause_to_another_one(
    shell: Shell, writer: Writer
) -> None:
    shell.api.fails(*[Invalid("no", status=422)] * 10)
    for _ in range(9):
        writer.reconcile(KEY)
        await shell.settle()
        assert shell.tasks.await_pause()
    assert writer.thing is not None
    meta, writer.thing = writer.thing.meta, None
    writer.reconcile(KEY)
    writer.thing = Thing(_changed(meta, uid="another"))
    writer.reconcile(KEY)
    await shell.settle()

    assert shell.tasks.pauses[-1] <= 0.1


@pytest.mark.parametrize("edit", [{"generation": 2}, {"uid": "another"}], ids=["edited", "replaced"])
async def test_a_fault_pauses_the_version_for_which_it_came_up(
    shell: Shell, writer: Writer, edit: dict[str, Any]
) -> None:
    """Regression: an edit that came during the write was left alone for up to 5 minutes."""
    shell.api.fails(LookupError("a bug"))
    shell.api.gate.clear()
    writer.reconcile(KEY)
    await turns()
    writer.edit(resource_version="2", **edit)
    shell.api.gate.set()
    await shell.settle()

    assert shell.isolation.faults == ["status shop/team: a bug"]
    assert shell.api.verbs == ["PUT"]
    assert writer.again == [KEY]
    shell.api.objects[PATH]["metadata"] |= {"uid": "uid-team", "resourceVersion": "2"} | (
        {"uid": edit["uid"]} if "uid" in edit else {}
    )
    await write(shell, writer)
    assert not writer.lags(KEY)


async def test_a_fault_is_reported_in_the_status_and_pauses_the_retries_of_its_object(
    shell: Shell, writer: Writer
) -> None:
    writer.broken = True
    writer.reconcile(KEY)
    writer.reconcile(KEY)
    await shell.settle()
    writer.reconcile(KEY)
    assert shell.isolation.faults == ["status shop/team: a bug"]
    (asked,) = shell.api.asked
    assert {each["reason"] for each in asked.body["status"]["conditions"]} == {"InternalError"}

    writer.broken = False
    assert writer.again == []
    shell.tasks.await_pause()
    assert writer.again == [KEY]
    shell.api.objects[PATH]["metadata"]["resourceVersion"] = "1"
    writer.reconcile(KEY)
    await shell.settle()
    assert not writer.lags(KEY)


async def test_a_new_spec_ends_the_pause_after_a_fault(shell: Shell, writer: Writer) -> None:
    writer.broken = True
    writer.reconcile(KEY)
    await shell.settle()
    writer.broken = False
    writer.edit(generation=2, resource_version="2")
    writer.reconcile(KEY)
    await shell.settle()

    assert shell.api.asked[-1].body["status"] == {"wanted": 2}


async def test_the_pause_after_a_fault_does_not_apply_to_another_object_of_the_same_name(
    shell: Shell, writer: Writer
) -> None:
    writer.broken = True
    writer.reconcile(KEY)
    await shell.settle()
    writer.broken = False
    shell.api.edit(PATH, {"metadata": {"uid": "another"}})
    version = shell.api.objects[PATH]["metadata"]["resourceVersion"]
    writer.edit(uid="another", resource_version=version)
    writer.reconcile(KEY)
    await shell.settle()

    assert shell.api.asked[-1].body["status"] == {"wanted": 1}


async def test_objects_of_one_controller_share_a_queue(shell: Shell, writer: Writer) -> None:
    owner = OwnerReference("v1", "Owner", "train", "uid-train", controller=True)
    metas = [ObjectMeta(name, NAMESPACE, uid=name, owner_references=(owner,)) for name in "abcdefghij"]
    order: list[str] = []

    async def hold(meta: ObjectMeta) -> None:
        async with writer.turn(meta):
            order.append(meta.name)
            await asyncio.sleep(0)

    alone = replace_owner(metas[0])
    await asyncio.gather(*(hold(meta) for meta in metas), hold(alone))
    assert order.index("alone") < order.index("j")


def replace_owner(meta: ObjectMeta) -> ObjectMeta:
    return _changed(meta, name="alone", uid="alone", owner_references=())
