"""Pods with interested extenders, and the pods and reservations that are decided in the meantime."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from builders import SCHEDULER, Json, encode, node_json, pod, pod_json
from tidelock.framework.api import Victims
from tidelock.framework.config import Configuration, default_configuration
from tidelock.framework.config_file import Extender
from tidelock.framework.extender import ExtenderAdviceData, ExtenderFailure
from tidelock.framework.rejections import nodes_by_reason
from tidelock.model.api.reservation import Phase
from tidelock.model.nodes import Node, decode_node
from tidelock.model.pods import decode_pod
from tidelock.model.quantities import CPU
from tidelock.model.raw import keeping_raw
from tidelock.plugins.default_preemption.plugin import NO_CANDIDATE
from tidelock.plugins.node_resources_fit import insufficient
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.actions.extenders import extender_failed
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.outcomes import ExtenderCall
from tidelock.scheduler.core.queued_pod import QueueName
from unit.kube.scripted import ScriptedServer, answers
from unit.scheduler.machinery import Core, Shell, pod_path

FOO = "example.com/foo"
WANTED = {"cpu": "1", FOO: "1"}


def node(name: str, **fields: Any) -> Node:
    return keeping_raw(decode_node)(encode(node_json(name, **{FOO: "9"} | fields)))


def with_extender(url: str = "http://extender", **fields: Any) -> Configuration:
    """Return the default configuration with an extender that is interested in foo."""
    settings = {"urlPrefix": url, "filterVerb": "filter", "managedResources": [{"name": FOO}], **fields}
    plain = default_configuration(SCHEDULER, BUILTINS)
    extenders = (Extender.model_validate(settings),)
    return Configuration(profiles=plain.profiles, registry=plain.registry, extenders=extenders)


def core(*nodes: Node) -> Core:
    return Core(*nodes, configuration=with_extender())


def asked_extenders(scheduler: Core) -> ExtenderCall:
    """Run one step, and assert that it calls extenders."""
    outcome = scheduler.step()
    assert isinstance(outcome, ExtenderCall), outcome
    return outcome


def answer(scheduler: Core, advice: ExtenderAdviceData) -> None:
    """Answer the last extender call."""
    call = scheduler.decider.pod_scheduler.extender_call
    assert call is not None
    scheduler.decider.pod_scheduler.advised(call, advice)


def names(call: ExtenderCall) -> list[str]:
    return [each.name for each in call.nodes]


class TestOrder:
    def test_a_pod_without_an_interested_extender_is_decided_at_once(self) -> None:
        scheduler = core(node("node-a"))
        scheduler.add(pod("web-0"))
        assert scheduler.place().node_name == "node-a"

    def test_only_nodes_that_pass_all_filters_are_sent(self) -> None:
        scheduler = core(node("node-a"), node("node-b", cpu="0"), node("node-c"))
        scheduler.add(pod("web-0", requests=WANTED))
        assert names(asked_extenders(scheduler)) == ["node-a", "node-c"]

    def test_a_pod_that_fits_no_node_is_refused_without_a_call(self) -> None:
        scheduler = core(node("node-a", cpu="0"))
        scheduler.add(pod("web-0", requests=WANTED))
        assert scheduler.refuse().diagnosis.message.startswith(nodes_by_reason(1, {insufficient(CPU): 1}))

    def test_later_pods_wait_for_the_answer(self) -> None:
        scheduler = core(node("node-a", cpu="1"))
        scheduler.add(pod("web-0", requests=WANTED), pod("web-1"))
        asked_extenders(scheduler)

        assert scheduler.step() is None
        assert scheduler.decider.next_due() is None
        answer(scheduler, ExtenderAdviceData(frozenset({"node-a"})))
        assert scheduler.decider.next_due() == 0

        assert scheduler.place().pod.meta.name == "web-0"
        assert scheduler.refuse().waiting.pod.meta.name == "web-1"

    def test_reservations_are_decided_in_the_meantime_and_count_for_the_pod(self) -> None:
        scheduler = core(node("node-a", cpu="1"), node("node-b", cpu="1"))
        scheduler.add(pod("web-0", requests=WANTED))
        asked_extenders(scheduler)
        reservation = scheduler.reservation(nodeName="node-a", owner="db-0", ttlSeconds=60)

        assert scheduler.step() is None
        assert reservation.phase is Phase.ACTIVE
        assert scheduler.decider.next_due() == scheduler.clock.now() + 60

        answer(scheduler, ExtenderAdviceData(frozenset({"node-a", "node-b"}), scores={"node-a": 100}))
        assert scheduler.place().node_name == "node-b"

    def test_a_reservation_expires_during_an_extender_call(self) -> None:
        scheduler = core(node("node-a"))
        reservation = scheduler.reservation(ttlSeconds=60)
        scheduler.step()
        scheduler.add(pod("web-1", requests=WANTED))
        asked_extenders(scheduler)
        scheduler.clock.advance(60)
        scheduler.step()
        assert reservation.phase is Phase.EXPIRED


class TestAnswer:
    @pytest.fixture
    def asked(self) -> Core:
        """Build a scheduler that has called extenders about a pod and two nodes, of which one is better."""
        scheduler = core(node("node-a", cpu="64"), node("node-b", cpu="2"))
        scheduler.add(pod("web-0", requests=WANTED))
        assert names(asked_extenders(scheduler)) == ["node-a", "node-b"]
        return scheduler

    def test_the_answer_narrows_the_choice(self, asked: Core) -> None:
        answer(asked, ExtenderAdviceData(frozenset({"node-b"})))
        assert asked.place().node_name == "node-b"

    def test_priorities_are_added_to_the_scores(self, asked: Core) -> None:
        answer(asked, ExtenderAdviceData(frozenset({"node-a", "node-b"})))
        assert asked.place().node_name == "node-a"

    def test_priorities_may_outweigh_the_scores(self, asked: Core) -> None:
        answer(asked, ExtenderAdviceData(frozenset({"node-a", "node-b"}), scores={"node-b": 1000}))
        assert asked.place().node_name == "node-b"

    def test_the_answer_never_widens_the_choice(self, asked: Core) -> None:
        asked.event_handlers.nodes.upsert(None, node("node-c", cpu="128"))
        asked.add(pod("big", requests={"cpu": "64"}, node_name="node-a"))
        answer(asked, ExtenderAdviceData(frozenset({"node-a"})))

        refused = asked.refuse()

        assert refused.diagnosis.message.startswith(nodes_by_reason(3, {insufficient(CPU): 1}))

    def test_reasons_are_those_of_the_extender(self, asked: Core) -> None:
        failed = {"node-a": ExtenderFailure("too hot", preemption_may_help=True)}
        answer(asked, ExtenderAdviceData(frozenset(), failed))

        refused = asked.refuse()

        assert refused.diagnosis.message.startswith("0/2 nodes are available: 1 too hot. preemption: ")
        assert refused.diagnosis.plugins == {"Extender"}
        assert not refused.diagnosis.error
        assert asked.queue.counts()[QueueName.UNSCHEDULABLE] == 1

    def test_an_event_during_an_extender_call_counts_when_the_pod_is_refused(self, asked: Core) -> None:
        """The pod is in flight when capacity comes free, so no later event would wake it."""
        asked.event_handlers.nodes.upsert(None, node("node-c"))
        answer(asked, ExtenderAdviceData())

        asked.refuse()

        assert asked.queue.counts()[QueueName.BACKOFF] == 1

    def test_a_failure_is_retried_after_a_backoff(self, asked: Core) -> None:
        answer(asked, ExtenderAdviceData(error="failed filter with extender"))

        refused = asked.refuse()

        assert (refused.diagnosis.message, refused.diagnosis.error) == ("failed filter with extender", True)
        assert asked.queue.counts()[QueueName.BACKOFF] == 1
        asked.clock.advance(1)
        asked_extenders(asked)

    def test_an_answer_about_a_pod_that_is_gone_is_dropped(self, asked: Core) -> None:
        asked.event_handlers.pods.remove(pod("web-0", requests=WANTED))
        asked.add(pod("web-1"))
        answer(asked, ExtenderAdviceData(frozenset({"node-a"})))

        assert asked.step() is None
        assert asked.place().pod.meta.name == "web-1"
        assert asked.used("node-a") + asked.used("node-b") == 1000

    def test_no_pod_waits_for_an_answer_about_a_pod_that_is_gone(self, asked: Core) -> None:
        late = asked.decider.pod_scheduler.extender_call
        assert late is not None
        asked.event_handlers.pods.remove(pod("web-0", requests=WANTED))
        asked.add(pod("web-1", requests=WANTED))
        assert asked.step() is None
        assert asked.decider.next_due() == 0
        asked_extenders(asked)

        asked.decider.pod_scheduler.advised(late, ExtenderAdviceData(frozenset({"node-a"})))
        assert asked.step() is None
        answer(asked, ExtenderAdviceData(frozenset({"node-b"})))
        assert asked.place().node_name == "node-b"

    def test_an_owner_gets_its_reservation_if_the_extender_agrees(self) -> None:
        scheduler = core(node("node-a", cpu="8"), node("node-b", cpu="1"))
        reservation = scheduler.reservation(nodeName="node-b", resources=WANTED)
        scheduler.step()
        scheduler.add(pod("web-0", requests=WANTED))
        asked_extenders(scheduler)
        answer(scheduler, ExtenderAdviceData(frozenset({"node-a", "node-b"}), scores={"node-a": 100}))

        assert scheduler.place().node_name == "node-b"
        assert reservation.phase is Phase.BOUND


class TestVictims:
    """Extenders and victims: without I/O here, and over HTTP in TestPreemption."""

    @pytest.fixture
    def asked(self) -> Core:
        """Build a scheduler that has found victims on two nodes and has called extenders about them."""
        scheduler = self.crowded()
        scheduler.add(pod("web-0", requests=WANTED, priority=10))
        assert set(asked_extenders(scheduler).victims or {}) == {"node-a", "node-b"}
        return scheduler

    def crowded(self, **fields: Any) -> Core:
        """Build two nodes that are full of pods of low priority. The pod on node-b has the higher cost."""
        settings = {"filterVerb": "", "preemptVerb": "preempt", **fields}
        scheduler = Core(
            node("node-a", cpu="1"), node("node-b", cpu="1"), configuration=with_extender(**settings)
        )
        scheduler.add(
            pod("low-a", requests={"cpu": "1"}, node_name="node-a"),
            pod("low-b", requests={"cpu": "1"}, node_name="node-b", priority=5),
        )
        return scheduler

    def victims(self, scheduler: Core, *node_names: str) -> dict[str, Victims]:
        call = scheduler.decider.pod_scheduler.extender_call
        assert call is not None
        assert call.victims is not None
        return {name: call.victims[name] for name in node_names}

    def test_no_victim_is_chosen_before_the_extenders_have_answered(self, asked: Core) -> None:
        assert asked.step() is None
        assert asked.take_preemptions() == []
        assert list(asked.cache.nominator.nodes) == []

    def test_only_nodes_that_the_extenders_leave_are_chosen(self, asked: Core) -> None:
        answer(asked, ExtenderAdviceData(victims=self.victims(asked, "node-b")))
        asked.refuse()
        assert list(asked.cache.nominator.nodes) == ["node-b"]
        (attempt,) = asked.take_preemptions()
        assert [each.meta.name for each in attempt.victims] == ["low-b"]

    def test_among_these_nodes_the_least_harm_decides(self, asked: Core) -> None:
        answer(asked, ExtenderAdviceData(victims=self.victims(asked, "node-b", "node-a")))
        asked.refuse()
        assert list(asked.cache.nominator.nodes) == ["node-a"]

    @pytest.mark.parametrize(
        ("advice", "text"),
        [
            (ExtenderAdviceData(victims={}), f"preemption: {NO_CANDIDATE}"),
            (ExtenderAdviceData(victims={}, error="failed preempt"), "preemption: failed preempt"),
        ],
    )
    def test_without_a_node_or_an_answer_no_pod_is_evicted(
        self, asked: Core, advice: ExtenderAdviceData, text: str
    ) -> None:
        answer(asked, advice)
        diagnosis = asked.refuse().diagnosis
        assert diagnosis.message.endswith(text)
        assert not diagnosis.error
        assert list(asked.cache.nominator.nodes) == []
        assert asked.queue.counts()[QueueName.UNSCHEDULABLE] == 1

    def test_victims_that_are_gone_in_the_meantime_no_longer_count(self, asked: Core) -> None:
        victims = self.victims(asked, "node-b")
        asked.event_handlers.pods.remove(victims["node-b"].pods[0].pod)
        asked.add(pod("equal", requests={"cpu": "1"}, node_name="node-b", priority=10))
        answer(asked, ExtenderAdviceData(victims=victims))
        assert asked.refuse().diagnosis.message.endswith(NO_CANDIDATE)

    def test_capacity_that_came_free_in_the_meantime_is_used(self, asked: Core) -> None:
        victims = self.victims(asked, "node-a")
        asked.event_handlers.pods.remove(victims["node-a"].pods[0].pod)
        answer(asked, ExtenderAdviceData(victims=victims))
        assert asked.place().node_name == "node-a"

    def test_a_node_with_capacity_that_came_free_is_sent_to_the_extender_first(self) -> None:
        scheduler = self.crowded(filterVerb="filter")
        scheduler.add(pod("web-0", requests=WANTED, priority=10))
        victims = asked_extenders(scheduler).victims
        assert victims is not None
        scheduler.event_handlers.pods.remove(victims["node-a"].pods[0].pod)
        answer(scheduler, ExtenderAdviceData(victims=victims))
        assert names(asked_extenders(scheduler)) == ["node-a"]

    def test_nodes_with_victims_are_sent_after_the_extender_has_refused_all_fitting_nodes(self) -> None:
        scheduler = self.crowded(filterVerb="filter")
        scheduler.event_handlers.nodes.upsert(None, node("node-c"))
        scheduler.add(pod("low-c", requests={"cpu": "1"}, node_name="node-c"))
        scheduler.add(pod("web-0", requests=WANTED, priority=10))
        assert names(asked_extenders(scheduler)) == ["node-c"]

        answer(
            scheduler,
            ExtenderAdviceData(failed={"node-c": ExtenderFailure("too hot", preemption_may_help=False)}),
        )
        victims = asked_extenders(scheduler).victims
        assert victims is not None
        assert set(victims) == {"node-a", "node-b"}
        answer(scheduler, ExtenderAdviceData(victims=victims))
        diagnosis = scheduler.refuse().diagnosis
        assert list(scheduler.cache.nominator.nodes) == ["node-a"]
        assert diagnosis.plugins == {"NodeResourcesFit", "Extender"}

    def test_extenders_are_not_called_if_all_victims_are_reservations(self) -> None:
        scheduler = Core(
            node("node-a", cpu="1"), configuration=with_extender(filterVerb="", preemptVerb="preempt")
        )
        reservation = scheduler.reservation(nodeName="node-a", owner="db-0", resources={"cpu": "1"})
        scheduler.step()
        scheduler.add(pod("web-0", requests=WANTED, priority=10))
        scheduler.refuse()
        assert list(scheduler.cache.nominator.nodes) == ["node-a"]
        assert reservation.phase is Phase.PENDING


@asynccontextmanager
async def running(scheduler: Shell) -> AsyncIterator[None]:
    """Run the decision loop within the context."""
    async with scheduler.extenders:
        task = asyncio.create_task(scheduler.loop.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await scheduler.tasks.drain(5)


async def until(condition: Any) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 -- the condition sets no event
            await asyncio.sleep(0.005)


class TestLoop:
    def shell(self, server: ScriptedServer, **fields: Any) -> Shell:
        configuration = with_extender(server.url, nodeCacheCapable=True, **fields)
        return Shell(node("node-a"), node("node-b"), configuration=configuration)

    def send(self, scheduler: Shell, name: str, requests: Json) -> None:
        """Create a pod with its JSON, and deliver it by the watch."""
        plain = pod_json(name, requests=requests)
        scheduler.api.objects[pod_path(name)] = plain
        scheduler.event_handlers.pods.upsert(None, keeping_raw(decode_pod)(encode(plain)))

    def node_of(self, scheduler: Shell, name: str) -> str:
        return str(scheduler.api.objects[pod_path(name)]["spec"]["nodeName"])

    async def test_a_pod_is_placed_on_a_node_that_the_extender_allows(self, server: ScriptedServer) -> None:
        server.replays(answers({"NodeNames": ["node-b"]}))
        scheduler = self.shell(server)
        self.send(scheduler, "web-0", WANTED)
        self.send(scheduler, "web-1", {"cpu": "1"})
        async with running(scheduler):
            await until(lambda: self.node_of(scheduler, "web-1"))

        assert self.node_of(scheduler, "web-0") == "node-b"
        (asked,) = server.asked
        assert asked.json["Pod"]["metadata"]["name"] == "web-0"
        assert scheduler.metric("scheduler_scheduling_algorithm_duration_seconds_count") == 2

    async def test_a_reservation_becomes_active_while_the_extender_does_not_answer(
        self, server: ScriptedServer
    ) -> None:
        scheduler = self.shell(server)
        self.send(scheduler, "web-0", WANTED)
        async with running(scheduler):
            await until(lambda: server.asked)
            reservation = scheduler.store_reservation()
            await until(lambda: reservation.phase is Phase.ACTIVE)
            assert not self.node_of(scheduler, "web-0")
            await server.close()
            await until(lambda: "FailedScheduling" in scheduler.recorder.reasons)

    async def test_a_failure_is_reported_as_an_error(self, server: ScriptedServer) -> None:
        server.replays(answers("no", status=500))
        scheduler = self.shell(server)
        self.send(scheduler, "web-0", WANTED)
        async with running(scheduler):
            await until(lambda: scheduler.recorder.reasons)

        (told,) = scheduler.recorder
        assert told.note == f"{extender_failed('filter', f'{server.url}/filter')}, code 500"
        (condition,) = scheduler.api.objects[pod_path()]["status"]["conditions"]
        assert (condition["reason"], condition["message"]) == ("SchedulerError", told.note)
        assert (
            scheduler.metric(
                "scheduler_schedule_attempts_total", result="error", profile="tidelock-scheduler"
            )
            == 1
        )

    async def test_an_extender_may_bind(self, server: ScriptedServer) -> None:
        server.replays(answers({}))
        scheduler = self.shell(server, filterVerb="", bindVerb="bind")
        self.send(scheduler, "web-0", WANTED)
        async with running(scheduler):
            await until(lambda: scheduler.recorder.reasons)

        assert scheduler.recorder.reasons == ["Scheduled"]
        assert scheduler.api.asked == []
        assert server.asked[0].json["PodName"] == "web-0"

    async def test_a_binding_that_the_extender_refuses_is_undone(self, server: ScriptedServer) -> None:
        server.replays(answers({"Error": "no device"}))
        scheduler = self.shell(server, filterVerb="", bindVerb="bind")
        self.send(scheduler, "web-0", WANTED)
        async with running(scheduler):
            await until(lambda: scheduler.queue.counts()[QueueName.BACKOFF])

        assert scheduler.used("node-a") + scheduler.used("node-b") == 0

    async def test_a_binding_with_a_lost_response_is_looked_up(self, server: ScriptedServer) -> None:
        scheduler = self.shell(server, filterVerb="", bindVerb="bind", httpTimeout="100ms")
        self.send(scheduler, "web-0", WANTED)
        async with running(scheduler):
            await until(lambda: server.asked)
            scheduler.api.edit(pod_path(), {"spec": {"nodeName": server.asked[0].json["Node"]}})
            await until(lambda: scheduler.recorder.reasons)

        assert scheduler.recorder.reasons == ["Scheduled"]


def test_without_extenders_there_is_no_extender_call() -> None:
    scheduler = Core(node("node-a"))
    scheduler.add(pod("web-0", requests=WANTED))
    assert isinstance(scheduler.step(), AssumedPod)


class TestPreemption:
    async def outcome(
        self, server: ScriptedServer, answer: Any, status: int = 200, **fields: Any
    ) -> tuple[Json, list[str]]:
        """Create a pod that needs the capacity of a full node.

        Return its status and the remaining low pods.
        """
        server.replays(answers(answer, status=status))
        settings = {"filterVerb": "", "preemptVerb": "preempt", "nodeCacheCapable": True, **fields}
        scheduler = Shell(
            node("node-a", cpu="1"),
            node("node-b", cpu="1"),
            configuration=with_extender(server.url, **settings),
        )
        for name, node_name, priority in (("low-a", "node-a", 0), ("low-b", "node-b", 5)):
            scheduler.store_pod(name, requests={"cpu": "1"}, node_name=node_name, priority=priority)
        entry = scheduler.store_reservation(
            "held", nodeName="node-b", owner="db-0", resources={"memory": "1Gi"}
        )
        scheduler.step()
        assert entry.phase is Phase.ACTIVE
        plain = pod_json("web-0", requests=WANTED, priority=10)
        scheduler.api.objects[pod_path("web-0")] = plain
        async with running(scheduler):
            scheduler.event_handlers.pods.upsert(None, keeping_raw(decode_pod)(encode(plain)))
            await until(lambda: scheduler.api.objects[pod_path("web-0")]["status"].get("conditions"))
            await scheduler.settle()
        left = [name for name in ("low-a", "low-b") if pod_path(name) in scheduler.api.objects]
        found: Json = scheduler.api.objects[pod_path("web-0")]["status"]
        return found, left

    async def test_victims_are_those_that_the_extender_leaves(self, server: ScriptedServer) -> None:
        answer = {"NodeNameToMetaVictims": {"node-b": {"Pods": [{"UID": "uid-low-b"}]}}}
        status, left = await self.outcome(server, answer)

        assert (status["nominatedNodeName"], left) == ("node-b", ["low-a"])
        (asked,) = server.asked
        assert asked.json["NodeNameToMetaVictims"] == {
            "node-a": {"Pods": [{"UID": "uid-low-a"}], "NumPDBViolations": 0},
            "node-b": {"Pods": [{"UID": "uid-low-b"}], "NumPDBViolations": 0},
        }

    async def test_a_failure_evicts_no_pod(self, server: ScriptedServer) -> None:
        status, left = await self.outcome(server, "broken", status=500)
        assert left == ["low-a", "low-b"]
        (condition,) = status["conditions"]
        assert condition["reason"] == "Unschedulable"
        assert "preemption: failed preempt with extender at URL" in condition["message"]

    async def test_the_failure_of_an_ignorable_extender_is_skipped(self, server: ScriptedServer) -> None:
        status, left = await self.outcome(server, "broken", status=500, ignorable=True)
        assert (status["nominatedNodeName"], left) == ("node-a", ["low-b"])
