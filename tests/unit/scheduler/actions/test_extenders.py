"""Extenders over real HTTP: the requests that they get, and the use of their answers."""

import asyncio
from typing import Any

import pytest
from aiohttp import web

from builders import encode, node_json, pod_json
from tidelock.framework.config_file import Extender
from tidelock.framework.extender import (
    UNEXPECTED_ANSWER,
    ExtenderAdviceData,
    ExtenderFailure,
    ExtenderVictims,
)
from tidelock.model.nodes import Node, decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.model.raw import keeping_raw
from tidelock.scheduler.actions.extenders import ExtenderError, Extenders, extender_failed
from unit.kube.scripted import ScriptedServer, answers

POD_JSON = pod_json("web-0", requests={"example.com/foo": "1"})
NODES_JSON = [node_json(name) for name in ("node-a", "node-b", "node-c")]


def whole_pod(plain: dict[str, Any]) -> Pod:
    return keeping_raw(decode_pod)(encode(plain))


POD = whole_pod(POD_JSON)
NODES = tuple(keeping_raw(decode_node)(encode(plain)) for plain in NODES_JSON)
ALL = frozenset({"node-a", "node-b", "node-c"})


def extender(server: ScriptedServer, **fields: Any) -> Extender:
    return Extender.model_validate({"urlPrefix": f"{server.url}/scheduler/", "weight": 1, **fields})


async def advise(*extenders: Extender, pod: Pod = POD, nodes: tuple[Node, ...] = NODES) -> ExtenderAdviceData:
    async with Extenders(extenders) as opened:
        return await opened.advise(pod, nodes)


class TestFilter:
    async def test_nodes_are_sent_and_returned_as_whole_objects(self, server: ScriptedServer) -> None:
        server.replays(answers({"Nodes": {"items": [NODES_JSON[1]]}, "FailedNodes": {"node-a": "too hot"}}))

        advice = await advise(extender(server, filterVerb="filter"))

        (asked,) = server.asked
        assert (asked.method, asked.path) == ("POST", "/scheduler/filter")
        assert asked.headers["Content-Type"] == "application/json"
        assert asked.json == {
            "Pod": POD_JSON,
            "Nodes": {"metadata": {}, "items": NODES_JSON},
            "NodeNames": None,
        }
        assert advice.names == {"node-b"}
        assert advice.failed == {"node-a": ExtenderFailure("too hot", preemption_may_help=True)}

    async def test_an_extender_with_a_node_cache_gets_names_of_nodes(self, server: ScriptedServer) -> None:
        server.replays(answers({"NodeNames": ["node-c", "node-a"]}))

        advice = await advise(extender(server, filterVerb="filter", nodeCacheCapable=True))

        (asked,) = server.asked
        assert asked.json == {"Pod": POD_JSON, "Nodes": None, "NodeNames": ["node-a", "node-b", "node-c"]}
        assert advice == ExtenderAdviceData(frozenset({"node-a", "node-c"}))

    async def test_an_extender_with_a_node_cache_may_return_whole_nodes(self, server: ScriptedServer) -> None:
        server.replays(answers({"Nodes": {"items": NODES_JSON[:1]}}))
        advice = await advise(extender(server, filterVerb="filter", nodeCacheCapable=True))
        assert advice.names == {"node-a"}

    async def test_names_from_an_extender_without_a_node_cache_are_ignored(
        self, server: ScriptedServer
    ) -> None:
        server.replays(answers({"NodeNames": ["node-a"]}))
        assert await advise(extender(server, filterVerb="filter")) == ExtenderAdviceData()

    async def test_the_case_of_field_names_is_ignored(self, server: ScriptedServer) -> None:
        server.replays(answers({"nodenames": ["node-a"], "failedNodes": {"node-b": "No"}, "error": ""}))
        advice = await advise(extender(server, filterVerb="filter", nodeCacheCapable=True))
        assert advice == ExtenderAdviceData(
            frozenset({"node-a"}), {"node-b": ExtenderFailure("No", preemption_may_help=True)}
        )

    async def test_an_unresolvable_failure_takes_precedence_over_a_failure(
        self, server: ScriptedServer
    ) -> None:
        server.replays(
            answers(
                {
                    "NodeNames": ["node-c"],
                    "FailedNodes": {"node-a": "busy", "node-b": "busy"},
                    "FailedAndUnresolvableNodes": {"node-a": "broken"},
                }
            )
        )
        advice = await advise(extender(server, filterVerb="filter", nodeCacheCapable=True))
        assert advice.failed == {
            "node-a": ExtenderFailure("broken", preemption_may_help=False),
            "node-b": ExtenderFailure("busy", preemption_may_help=True),
        }

    async def test_each_extender_gets_the_nodes_that_the_one_before_it_left(
        self, server: ScriptedServer
    ) -> None:
        cached = {"nodeCacheCapable": True}
        server.replays(
            answers({"NodeNames": ["node-b", "node-c"], "FailedNodes": {"node-a": "first"}}),
            answers({"NodeNames": ["node-c"], "FailedNodes": {"node-b": "second"}}),
        )

        advice = await advise(
            extender(server, filterVerb="one", **cached), extender(server, filterVerb="two", **cached)
        )

        assert [asked.path for asked in server.asked] == ["/scheduler/one", "/scheduler/two"]
        assert server.asked[1].json["NodeNames"] == ["node-b", "node-c"]
        assert advice.names == {"node-c"}
        assert {name: failed.reason for name, failed in advice.failed.items()} == {
            "node-a": "first",
            "node-b": "second",
        }

    async def test_no_extender_is_called_when_no_node_is_left(self, server: ScriptedServer) -> None:
        server.replays(answers({"NodeNames": []}))
        each = extender(server, filterVerb="filter", prioritizeVerb="prioritize", nodeCacheCapable=True)
        assert await advise(each, each) == ExtenderAdviceData()
        assert len(server.asked) == 1

    @pytest.mark.parametrize(
        ("answer", "error"),
        [
            (answers({"Error": "out of order"}), "out of order"),
            (answers("oops", status=500), f"{extender_failed('filter', '{url}')}, code 500"),
            (
                answers({"NodeNames": ["node-a"]}, status=201),
                f"{extender_failed('filter', '{url}')}, code 201",
            ),
            (answers("oops"), "the answer is not JSON: "),
            (answers({"NodeNames": "node-a"}), f"{UNEXPECTED_ANSWER}: Expected `array |"),
            (answers([1]), UNEXPECTED_ANSWER),
            (
                answers({"NodeNames": ["node-x"]}),
                'extender "{prefix}" claims a filtered node "node-x" which is not found in the input node',
            ),
        ],
        ids=["error", "500", "201", "text", "type", "array", "strange node"],
    )
    async def test_an_error_leaves_no_nodes_and_no_failures(
        self, server: ScriptedServer, answer: Any, error: str
    ) -> None:
        server.replays(answer)
        failing = extender(server, filterVerb="filter", nodeCacheCapable=True)

        advice = await advise(failing)

        prefix = failing.url_prefix
        assert advice.error.startswith(error.format(url=f"{prefix}filter", prefix=prefix))
        assert advice.names == frozenset()

    async def test_an_extender_that_does_not_answer_fails_after_its_timeout(
        self, server: ScriptedServer
    ) -> None:
        advice = await advise(extender(server, filterVerb="filter", httpTimeout="50ms"))
        url = f"{server.url}/scheduler/filter"
        assert advice.error == f"{extender_failed('filter', url)}: no answer within 0.05 s"

    async def test_the_failure_of_an_ignorable_extender_changes_nothing(self, server: ScriptedServer) -> None:
        server.replays(answers("oops", status=500), answers({"NodeNames": ["node-b"]}))
        cached = {"nodeCacheCapable": True, "filterVerb": "filter"}

        advice = await advise(extender(server, ignorable=True, **cached), extender(server, **cached))

        assert server.asked[1].json["NodeNames"] == ["node-a", "node-b", "node-c"]
        assert advice == ExtenderAdviceData(frozenset({"node-b"}))

    async def test_an_unreachable_extender_fails_unless_it_is_ignorable(self, server: ScriptedServer) -> None:
        await server.close()
        assert (await advise(extender(server, filterVerb="filter"))).error.startswith(
            "failed filter with ext"
        )
        assert (await advise(extender(server, filterVerb="filter", ignorable=True))).names == ALL


class TestPrioritize:
    async def test_priorities_are_weighted_scaled_and_summed(self, server: ScriptedServer) -> None:
        server.replays(
            answers([{"Host": "node-a", "Score": 10}, {"Host": "node-b", "Score": 1}]),
            answers([{"host": "node-a", "score": 10}, {"host": "node-b", "score": 1}]),
        )

        advice = await advise(
            extender(server, prioritizeVerb="prioritize", weight=1, nodeCacheCapable=True),
            extender(server, prioritizeVerb="prioritize", weight=3),
        )

        assert advice.names == ALL
        assert advice.scores == {"node-a": 400, "node-b": 40}
        bodies = [asked.json for asked in server.asked]
        assert sorted(bodies, key=lambda body: body["Nodes"] is None) == [
            {"Pod": POD_JSON, "Nodes": {"metadata": {}, "items": NODES_JSON}, "NodeNames": None},
            {"Pod": POD_JSON, "Nodes": None, "NodeNames": ["node-a", "node-b", "node-c"]},
        ]

    async def test_no_priorities_are_requested_for_a_single_node(self, server: ScriptedServer) -> None:
        server.replays(answers({"NodeNames": ["node-b"]}))
        one = extender(server, filterVerb="filter", prioritizeVerb="prioritize", nodeCacheCapable=True)
        assert await advise(one) == ExtenderAdviceData(frozenset({"node-b"}))
        assert [asked.path for asked in server.asked] == ["/scheduler/filter"]

    @pytest.mark.parametrize(
        "answer", [answers("x", status=500), answers({"a": 1}), answers([{"Score": "1"}])]
    )
    async def test_a_failure_counts_as_no_priorities(self, server: ScriptedServer, answer: Any) -> None:
        server.replays(answer)
        assert await advise(extender(server, prioritizeVerb="prioritize")) == ExtenderAdviceData(ALL)

    async def test_null_counts_as_no_priorities(self, server: ScriptedServer) -> None:
        server.replays(answers("null"))
        assert await advise(extender(server, prioritizeVerb="prioritize")) == ExtenderAdviceData(ALL)


class TestInterest:
    @pytest.mark.parametrize(
        ("managed", "interested"), [((), True), (("example.com/foo",), True), (("example.com/bar",), False)]
    )
    async def test_only_extenders_that_manage_a_resource_of_the_pod_are_called(
        self, server: ScriptedServer, managed: tuple[str, ...], interested: bool
    ) -> None:
        server.replays(answers({"NodeNames": ["node-a"]}))
        resources = [{"name": name} for name in managed]
        one = extender(server, filterVerb="filter", nodeCacheCapable=True, managedResources=resources)

        advice = await advise(one)

        assert advice.names == ({"node-a"} if interested else ALL)
        assert len(server.asked) == interested

    async def test_limits_of_init_containers_count_too(self, server: ScriptedServer) -> None:
        server.replays(answers({"NodeNames": ["node-a"]}))
        init = [{"name": "init", "resources": {"limits": {"example.com/bar": "1"}}}]
        one = extender(
            server, filterVerb="f", nodeCacheCapable=True, managedResources=[{"name": "example.com/bar"}]
        )
        advice = await advise(one, pod=whole_pod(pod_json("web-0", initContainers=init)))
        assert advice.names == {"node-a"}


class TestBind:
    async def bind(self, *extenders: Extender) -> bool:
        async with Extenders(extenders) as opened:
            return await opened.bind(POD, "node-a")

    async def test_the_extender_that_binds_gets_the_names_of_pod_and_node(
        self, server: ScriptedServer
    ) -> None:
        server.replays(answers({}))

        assert await self.bind(extender(server, filterVerb="filter"), extender(server, bindVerb="bind"))

        (asked,) = server.asked
        assert (asked.path, asked.json) == (
            "/scheduler/bind",
            {"PodName": "web-0", "PodNamespace": "shop", "PodUID": "uid-web-0", "Node": "node-a"},
        )

    async def test_without_an_interested_binder_nothing_is_sent(self, server: ScriptedServer) -> None:
        other = [{"name": "example.com/bar"}]
        assert not await self.bind(extender(server, bindVerb="bind", managedResources=other))
        assert server.asked == []

    @pytest.mark.parametrize(
        ("answer", "error", "unknown"),
        [
            (answers({"Error": "no"}), "^no$", False),
            (answers("x", status=404), "code 404$", False),
            (answers("x", status=502), "code 502$", True),
        ],
    )
    async def test_the_error_of_a_failed_binding_shows_whether_the_pod_may_be_bound(
        self, server: ScriptedServer, answer: Any, error: str, unknown: bool
    ) -> None:
        server.replays(answer)
        with pytest.raises(ExtenderError, match=error) as failed:
            await self.bind(extender(server, bindVerb="bind"))
        assert failed.value.outcome_unknown is unknown

    async def test_a_lost_response_leaves_the_outcome_of_the_binding_unknown(
        self, server: ScriptedServer
    ) -> None:
        with pytest.raises(ExtenderError) as failed:
            await self.bind(extender(server, bindVerb="bind", httpTimeout="50ms"))
        assert failed.value.outcome_unknown

    async def test_an_extender_makes_a_limited_number_of_bindings_at_once(
        self, server: ScriptedServer
    ) -> None:
        """Only those have a connection, and their time-outs run."""
        async with Extenders((extender(server, bindVerb="bind", httpTimeout="1h"),)) as opened:
            tasks = [asyncio.create_task(opened.bind(POD, "node-a")) for _ in range(40)]
            async with asyncio.timeout(60):
                while len(server.asked) < 32:  # noqa: ASYNC110 -- the server sets no event
                    await asyncio.sleep(0.005)
            assert len(opened._session.connector._acquired) == 32  # type: ignore[union-attr]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def test_after_a_failure_of_an_ignorable_binder_the_scheduler_binds_the_pod(
        self, server: ScriptedServer
    ) -> None:
        server.replays(answers({"Error": "no"}))
        assert not await self.bind(extender(server, bindVerb="bind", ignorable=True))


VICTIM_JSON = pod_json("old-0", node_name="node-a")
OTHER_JSON = pod_json("old-1", node_name="node-a")
PLACED = {"node-a": [whole_pod(VICTIM_JSON), whole_pod(OTHER_JSON)], "node-b": []}


class TestPreempt:
    async def preempt(self, *extenders: Extender) -> dict[str, tuple[list[str], int]]:
        victims = {"node-a": ExtenderVictims((PLACED["node-a"][0],), 1)}
        async with Extenders(extenders) as opened:
            chosen = await opened.preempt(POD, victims, lambda name: PLACED.get(name, []))
        return {
            name: ([pod.meta.name for pod in each.pods], each.violations) for name, each in chosen.items()
        }

    async def test_victims_are_sent_as_whole_objects_and_may_be_replaced(
        self, server: ScriptedServer
    ) -> None:
        server.replays(
            answers(
                {"NodeNameToMetaVictims": {"node-a": {"Pods": [{"UID": "uid-old-1"}], "NumPDBViolations": 2}}}
            )
        )

        chosen = await self.preempt(extender(server, preemptVerb="preempt"))

        assert chosen == {"node-a": (["old-1"], 2)}
        (asked,) = server.asked
        assert asked.json == {
            "Pod": POD_JSON,
            "NodeNameToVictims": {"node-a": {"Pods": [VICTIM_JSON], "NumPDBViolations": 1}},
            "NodeNameToMetaVictims": None,
        }

    async def test_an_extender_with_a_node_cache_gets_victims_by_uid(self, server: ScriptedServer) -> None:
        server.replays(answers({"nodenametometavictims": {"node-a": {"pods": [{"uid": "uid-old-0"}]}}}))

        chosen = await self.preempt(extender(server, preemptVerb="preempt", nodeCacheCapable=True))

        assert chosen == {"node-a": (["old-0"], 0)}
        (asked,) = server.asked
        assert asked.json == {
            "Pod": POD_JSON,
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": {"node-a": {"Pods": [{"UID": "uid-old-0"}], "NumPDBViolations": 1}},
        }

    async def test_an_extender_without_the_verb_is_not_asked(self, server: ScriptedServer) -> None:
        assert await self.preempt(extender(server, filterVerb="filter")) == {"node-a": (["old-0"], 1)}
        assert server.asked == []

    async def test_no_further_extender_is_called_when_no_candidate_is_left(
        self, server: ScriptedServer
    ) -> None:
        server.replays(answers({"NodeNameToMetaVictims": None}))
        each = extender(server, preemptVerb="preempt")
        assert await self.preempt(each, each) == {}
        assert len(server.asked) == 1

    @pytest.mark.parametrize(
        ("answer", "error"),
        [
            ({"node-a": {"Pods": []}}, '^expected at least one victim pod on node "node-a"$'),
            ({"node-a": None}, '^expected at least one victim pod on node "node-a"$'),
            ({"node-a": {"Pods": 3}}, f"^{UNEXPECTED_ANSWER}"),
            ({"node-a": {"Pods": [3]}}, f"^{UNEXPECTED_ANSWER}"),
            ([1], f"^{UNEXPECTED_ANSWER}"),
            (
                {"node-b": {"Pods": [{"UID": "uid-old-0"}]}},
                r"claims to preempt pod \(UID: uid-old-0\) on node: node-b, but the pod is not found on that",
            ),
        ],
    )
    async def test_an_invalid_answer_fails(self, server: ScriptedServer, answer: Any, error: str) -> None:
        server.replays(answers({"NodeNameToMetaVictims": answer}))
        with pytest.raises(ExtenderError, match=error):
            await self.preempt(extender(server, preemptVerb="preempt"))

    async def test_an_ignorable_extender_may_return_nodes_without_victims_which_are_left_out(
        self, server: ScriptedServer
    ) -> None:
        server.replays(
            answers({"NodeNameToMetaVictims": {"node-b": {}, "node-a": {"Pods": [{"UID": "uid-old-0"}]}}})
        )
        chosen = await self.preempt(extender(server, preemptVerb="preempt", ignorable=True))
        assert chosen == {"node-a": (["old-0"], 0)}

    async def test_the_failure_of_an_ignorable_extender_leaves_the_victims_unchanged(
        self, server: ScriptedServer
    ) -> None:
        server.replays(answers("x", status=500))
        chosen = await self.preempt(extender(server, preemptVerb="preempt", ignorable=True))
        assert chosen == {"node-a": (["old-0"], 1)}


async def test_priorities_of_all_extenders_are_requested_at_the_same_time(server: ScriptedServer) -> None:
    """Check that the second extender is called before the first has answered.

    Otherwise both would time out.
    """
    both = asyncio.Event()

    async def answer(request: web.Request) -> web.StreamResponse:
        if len(server.asked) == 2:
            both.set()
        await both.wait()
        return await answers([{"Host": "node-a", "Score": 1}])(request)

    server.replays(answer, answer)
    each = extender(server, prioritizeVerb="prioritize")
    assert (await advise(each, each)).scores == {"node-a": 20}
