"""Event handlers and decoders that fail for one object, which is unusable until it is delivered."""

import asyncio
from typing import Any

import msgspec
import pytest

from builders import node, pod_json, reservation
from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.errors import NotFound
from tidelock.model.lenient import Reader
from tidelock.model.meta import Key, ObjectMeta
from tidelock.model.pods import decode_pod
from tidelock.model.unusable import unusable
from unit.kube.following import Follower, Journal, Thing
from unit.kube.scripted import ScriptedServer, event, fails, page, pod, watch


class Failing(Journal):
    """An event handler that fails for one object a number of times."""

    def __init__(self, name: str = "bad", *, times: int = 1, removals: int = 0) -> None:
        super().__init__()
        self.name, self.times, self.removals = name, times, removals

    def upsert(self, old: Thing | None, new: Thing) -> None:
        if new.meta.name == self.name and not new.meta.faults and self.times:
            self.times -= 1
            raise KeyError("a bug in the sink")
        super().upsert(old, new)

    def remove(self, last: Thing) -> None:
        if last.meta.name == self.name and self.removals:
            self.removals -= 1
            raise KeyError("a bug in the sink")
        super().remove(last)


class Failures:
    """Records failures, and has each object tried again at once."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, step: str, about: ApiResource, meta: ObjectMeta, error: Exception, /) -> float:
        self.told.append(f"{step} {about.plural} {meta.key}: {type(error).__name__}")
        return 0.0


def marked(thing: Thing, problem: str) -> Thing:
    """Return the replacement of an unusable thing."""
    return msgspec.structs.replace(thing, metadata=unusable_meta(thing, problem), size=-1)


def unusable_meta(thing: Thing, problem: str) -> ObjectMeta:
    del problem
    faults: Any = (("", "unusable", True),)
    return msgspec.structs.replace(thing.meta, faults=faults)


async def settled(follower: Follower) -> list[str]:
    await follower.until_script_ends()
    for _ in range(10):
        await asyncio.sleep(0)
    return follower.journal.lines


async def test_an_object_that_fails_in_the_handler_hides_no_other_and_is_delivered_later(
    client: KubeClient, server: ScriptedServer
) -> None:
    """The failure once ended the process, and each later process at its start."""
    server.replays(
        page(pod("a", 1), pod("bad", 2), pod("c", 3), version=9),
        watch(event("ADDED", pod("d", 10))),
    )
    sink, failures = Failing(), Failures()
    follower = Follower(client, server, sink, on_failure=failures)
    await settled(follower)
    assert failures.told == ["event pods shop/bad: KeyError"]
    assert sorted(line for line in sink.lines if line.startswith("+")) == ["+a@1", "+bad@2", "+c@3", "+d@10"]
    assert not follower.reflector.faulty


async def test_until_then_the_handler_has_a_replacement_and_the_object_is_unusable(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(page(pod("bad", 2), version=9), watch())
    sink, failures = Failing(times=10**6), Failures()
    follower = Follower(
        client, server, sink, on_failure=lambda *fault: failures(*fault) + 1000, unusable=marked
    )
    await settled(follower)
    assert sink.lines == ["+bad@2", "synced"]
    [fault] = follower.reflector.faulty[Key("shop", "bad")]
    assert fault.needed
    assert "KeyError" in fault.problem


async def test_the_last_delivered_state_is_the_old_object_of_the_next_version(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(pod("bad", 1), version=1),
        watch(event("MODIFIED", pod("bad", 2)), event("MODIFIED", pod("bad", 3))),
    )
    sink = Failing(times=0)
    follower = Follower(client, server, sink, on_failure=lambda *_: 1000.0)
    upsert = sink.upsert

    def fail_for_the_second(old: Thing | None, new: Thing) -> None:
        if new.meta.resource_version == "2":
            raise KeyError("a bug in the sink")
        upsert(old, new)

    sink.upsert = fail_for_the_second  # type: ignore[method-assign]
    await settled(follower)
    assert sink.lines == ["+bad@1", "synced", "bad@1>bad@3"]


async def test_a_failed_removal_is_delivered_again(client: KubeClient, server: ScriptedServer) -> None:
    server.replays(page(pod("bad", 1), version=1), watch(event("DELETED", pod("bad", 2))))
    sink, failures = Failing(times=0, removals=1), Failures()
    follower = Follower(client, server, sink, on_failure=failures)
    await settled(follower)
    assert failures.told == ["removal pods shop/bad: KeyError"]
    assert sink.lines == ["+bad@1", "synced", "-bad@1"]


async def test_a_decoding_failure_affects_only_its_object(client: KubeClient, server: ScriptedServer) -> None:
    decode = Reader(Thing)

    def failing(raw: bytes) -> Thing:
        decoded = decode(raw)
        if decoded.meta.name == "bad":
            raise RecursionError
        return decoded

    server.replays(page(pod("bad", 1), pod("good", 2), version=3), watch())
    failures = Failures()
    follower = Follower(client, server, on_failure=lambda *fault: failures(*fault) + 1000, decode=failing)
    await settled(follower)
    assert follower.journal.lines == ["+good@2", "synced"]
    assert failures.told == ["decoding pods shop/bad: RecursionError"]
    assert Key("shop", "bad") in follower.reflector.faulty


async def test_an_object_that_could_not_be_decoded_is_decoded_again_later(
    client: KubeClient, server: ScriptedServer
) -> None:
    """Such an object was once unknown until its next version."""
    decode, failing = Reader(Thing), {"1", "4"}

    def decode_at_the_second_try(raw: bytes) -> Thing:
        decoded = decode(raw)
        if decoded.meta.resource_version in failing:
            failing.discard(decoded.meta.resource_version)
            raise RecursionError
        return decoded

    server.replays(page(pod("new", 1), pod("known", 3), version=3), watch(event("MODIFIED", pod("known", 4))))
    uids: list[str] = []

    def failed(step: str, _about: ApiResource, meta: ObjectMeta, _error: Exception, /) -> float:
        uids.append(f"{step} {meta.uid}")
        return 0.0

    follower = Follower(client, server, on_failure=failed, decode=decode_at_the_second_try)
    lines = await settled(follower)
    assert sorted(lines) == ["+known@3", "+new@1", "known@3>known@4", "synced"]
    assert uids == ["decoding uid-new", "decoding uid-known"]
    assert not follower.reflector.faulty


def test_the_replacement_of_an_object_is_marked_as_unusable() -> None:

    bound = decode_pod(msgspec.json.encode(pod_json("web-0", node_name="node-a")))
    left = unusable(bound, "a bug")
    assert (left.uid, left.node_name, left.meta.unreadable) == (bound.uid, "node-a", "a bug")
    assert (
        left.spec.scheduler_name == bound.spec.scheduler_name
    )  # Otherwise no scheduler reports why it waits.
    assert unusable(node(), "a bug").meta.unreadable == "a bug"
    lock = unusable(reservation(), "a bug")
    assert (lock.pod, lock.spec, lock.problem, lock.failure) == (None, None, "a bug", "a bug")
    assert unusable("anything else", "a bug") is None


async def test_a_failed_removal_is_delivered_although_another_object_has_the_name(
    client: KubeClient, server: ScriptedServer
) -> None:
    """A pod's capacity was lost until a restart: its removal failed once, and its name came again."""
    server.replays(
        page(pod("bad", 1, uid="old"), version=1),
        watch(event("DELETED", pod("bad", 2, uid="old")), event("ADDED", pod("bad", 3, uid="new"))),
    )
    sink, failures = Failing(times=0, removals=2), Failures()
    follower = Follower(client, server, sink, on_failure=failures)
    await settled(follower)
    assert failures.told == ["removal pods shop/bad: KeyError"] * 2
    assert sink.lines == ["+bad@1", "synced", "+bad@3", "-bad@1"]
    assert follower.reflector.store[Key("shop", "bad")].meta.uid == "new"


async def test_a_removal_is_not_delivered_after_the_same_object_was_seen_again(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(
        page(pod("bad", 1), version=1),
        watch(event("DELETED", pod("bad", 2)), event("ADDED", pod("bad", 3))),
    )
    sink = Failing(times=0, removals=1)
    await settled(Follower(client, server, sink, on_failure=Failures()))
    assert sink.lines == ["+bad@1", "synced", "+bad@3"]


async def test_an_event_handler_that_fails_after_the_list_gets_its_end_again(
    client: KubeClient, server: ScriptedServer
) -> None:
    """The exception ended the process, and each later one at the same place."""
    server.replays(page(pod("a", 1), version=1), watch(event("ADDED", pod("b", 2))))
    sink, failures = Journal(), Failures()
    synced, errors = sink.synced, [KeyError("a bug in the sink")]

    def fail_once() -> None:
        if errors:
            raise errors.pop()
        synced()

    sink.synced = fail_once  # type: ignore[method-assign]
    follower = Follower(client, server, sink, on_failure=failures)
    await settled(follower)
    assert failures.told == ["list pods : KeyError"]
    assert sorted(sink.lines) == ["+a@1", "+b@2", "synced"]
    assert follower.reflector.synced.is_set()


async def test_an_object_that_only_a_list_shows_as_gone_is_removed_again_later(
    client: KubeClient, server: ScriptedServer
) -> None:
    server.replays(page(version=1), watch())
    sink, failures = Failing(removals=1), Failures()
    gone = [Thing(ObjectMeta("bad", "shop", "uid-bad", "0")), Thing(ObjectMeta("good", "shop", "uid", "0"))]
    follower = Follower(client, server, sink, on_failure=failures, on_listed=lambda _version: gone)
    await settled(follower)
    assert failures.told == ["removal pods shop/bad: KeyError"]
    assert sorted(sink.lines) == ["-bad@0", "-good@0", "synced"]


class Retries:
    """The timers of the event loop with a pause that only retries after failures have."""

    PAUSE = 1234.0

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.all: list[asyncio.TimerHandle] = []
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def recording(delay: float, *arguments: Any, **options: Any) -> asyncio.TimerHandle:
            handle = call_later(delay, *arguments, **options)
            if delay == self.PAUSE:
                self.all.append(handle)
            return handle

        monkeypatch.setattr(loop, "call_later", recording)

    def failed(self, *_: object) -> float:
        return self.PAUSE

    @property
    def pending(self) -> int:
        return sum(not each.cancelled() for each in self.all)


async def test_at_most_one_retry_of_the_end_of_a_list_is_pending(
    client: KubeClient, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each refusal that counts as a list added one, and all of them outlived the reflector."""
    server.replays(fails(404), fails(404), fails(404), page(pod("a", 1), version=1), watch())
    sink, retries, pending = Journal(), Retries(monkeypatch), []
    synced = sink.synced

    def fail_until_listed() -> None:
        pending.append(retries.pending)
        if "+a@1" not in sink.lines:
            raise KeyError("a bug in the sink")
        synced()

    sink.synced = fail_until_listed  # type: ignore[method-assign]
    follower = Follower(client, server, sink, absent_if=(NotFound,), on_failure=retries.failed)
    await settled(follower)
    assert sink.lines == ["+a@1", "synced"]
    assert (pending, len(retries.all)) == ([0, 0, 0, 0], 3)


async def test_no_retry_outlives_the_reflector(
    client: KubeClient, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.replays(
        page(pod("bad", 1), version=1), watch(event("DELETED", pod("bad", 2)), event("ADDED", pod("bad", 3)))
    )
    retries, sink = Retries(monkeypatch), Failing(removals=1)

    def fail() -> None:
        raise KeyError("a bug in the sink")

    sink.synced = fail  # type: ignore[method-assign]
    await settled(Follower(client, server, sink, on_failure=retries.failed))
    assert len(retries.all) == 3, "of an upsert, a removal and the end of the list"
    assert retries.pending == 0
