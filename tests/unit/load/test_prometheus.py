import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tidelock.load.prometheus import PrometheusSource, PromQlQueries
from tidelock.load.promql import Access, anonymous_access
from tidelock.load.source import FailureReason, SourceError, Use, UseReading
from tidelock.model.meta import Key

NOW = 1_800_000_000.0
NODES = ("node-a", "node-b")
QUERIES = PromQlQueries("cpu", "memory", "", "names", "pod_cpu", "pod_memory")

Handler = Callable[[web.Request], Awaitable[web.Response]]
Series = list[tuple[dict[str, str], Any]]


def answer(series: Series, kind: str = "vector") -> dict[str, Any]:
    field = "value" if kind == "vector" else "values"
    result = [{"metric": labels, field: value} for labels, value in series]
    return {"status": "success", "data": {"resultType": kind, "result": result}}


@asynccontextmanager
async def serving(
    answers: Mapping[str, Any],
    asked: list[web.Request] | None = None,
    forms: list[Any] | None = None,
    answering: Handler | None = None,
) -> AsyncIterator[Callable[..., PrometheusSource]]:
    """Serve answers by the text of the query, or by `answering`. The answer to other queries is empty."""

    async def query(request: web.Request) -> web.Response:
        form = await request.post()
        if asked is not None:
            asked.append(request)
        if forms is not None:
            forms.append(dict(form))
        empty = answer([], "vector" if request.path.endswith("query") else "matrix")
        return web.Response(text=json.dumps(answers.get(str(form["query"]), empty)))

    application = web.Application()
    application.add_routes(
        [web.post(f"/base/api/v1/{path}", answering or query) for path in ("query", "query_range")]
    )
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    async with aiohttp.ClientSession() as session:

        def source(
            access: Any = anonymous_access, queries: PromQlQueries = QUERIES, node_label: str = ""
        ) -> PrometheusSource:
            url = f"http://{host}:{port}/base/"
            return PrometheusSource(session, url, access, lambda: NODES, queries, node_label=node_label)

        try:
            yield source
        finally:
            await runner.cleanup()


async def nodes_of(series: Series, names: Series = (), node_label: str = "") -> UseReading:  # type: ignore[assignment]
    async with serving({"cpu": answer(series), "names": answer(list(names))}) as source:
        return await source(node_label=node_label).read(NOW)


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ({"node": "node-a"}, []),
        ({"nodename": "node-a"}, []),
        ({"instance": "node-a"}, []),
        ({"instance": "node-a:9100"}, []),
        ({"node": "other", "instance": "node-a:9100"}, []),
        ({"instance": "10.0.0.5:9100"}, [{"instance": "10.0.0.5:9100", "nodename": "node-a"}]),
        ({"instance": "10.0.0.5:9100"}, [{"internal_ip": "10.0.0.5", "node": "node-a"}]),
        ({"instance": "[fd00::5]:9100"}, [{"internal_ip": "fd00::5", "node": "node-a"}]),
    ],
)
async def test_a_series_is_of_the_node_that_its_labels_name(
    labels: dict[str, str], names: list[dict[str, str]]
) -> None:
    reading = await nodes_of([(labels, [NOW, "0.5"])], [(each, [NOW, "1"]) for each in names])

    assert reading.nodes == {"node-a": Use(NOW, 50.0)}
    assert reading.problems == []


async def test_the_instance_of_kube_state_metrics_is_not_the_node_of_its_series() -> None:
    """One instance exports kube_node_info of all nodes, so the instance does not name the node."""
    names = [
        ({"instance": "10.0.0.9:8080", "node": name, "internal_ip": ip}, [NOW, "1"])
        for name, ip in (("node-a", "10.0.0.5"), ("node-b", "10.0.0.6"))
    ]
    reading = await nodes_of([({"instance": "10.0.0.9:9100"}, [NOW, "0.5"])], names)

    assert reading.nodes == {}


async def test_only_the_configured_label_counts() -> None:
    series: Series = [
        ({"machine": "node-a", "node": "node-b"}, [NOW, "0.5"]),
        ({"node": "node-b"}, [NOW, "0.7"]),
    ]
    reading = await nodes_of(series, node_label="machine")

    assert reading.nodes == {"node-a": Use(NOW, 50.0)}
    assert reading.problems == ["nodeCPU: a series is of no node of the cluster: {'node': 'node-b'}"]


async def test_a_node_without_its_exporter_is_missing_although_its_rate_continues() -> None:
    answers = {
        "cpu": answer([({"node": name}, [NOW, "0.5"]) for name in NODES]),
        "time": answer([({"node": "node-a"}, [NOW, f"{NOW - 30}"]), ({"node": "node-b"}, [NOW, "NaN"])]),
    }
    async with serving(answers) as source:
        reading = await source(queries=PromQlQueries("cpu", "memory", "time", "")).read(NOW)

    assert reading.nodes == {"node-a": Use(NOW - 30, 50.0)}


async def test_cpu_and_memory_are_joined_with_the_time_of_the_older_value() -> None:
    answers = {
        "cpu": answer([({"node": "node-a"}, [NOW - 60, "0.5"])]),
        "memory": answer([({"node": "node-a"}, [NOW, "0.25"])]),
    }
    async with serving(answers) as source:
        reading = await source().read(NOW)

    assert reading.nodes == {"node-a": Use(NOW - 60, 50.0, 25.0)}


async def test_a_failed_query_does_not_affect_the_others() -> None:
    failed = {"status": "error", "errorType": "bad_data", "error": "parse error"}
    async with serving({"cpu": answer([({"node": "node-a"}, [NOW, "0.5"])]), "memory": failed}) as source:
        reading = await source().read(NOW)

    assert reading.nodes == {"node-a": Use(NOW, 50.0)}
    assert reading.problems == ["nodeMemory: bad_data: parse error"]


async def test_a_query_without_an_instant_vector_is_an_error() -> None:
    scalar = {"status": "success", "data": {"resultType": "scalar", "result": []}}
    async with serving({"cpu": scalar, "memory": scalar}) as source:
        with pytest.raises(SourceError, match="a query gives a scalar, expected an instant vector") as caught:
            await source().read(NOW)

    assert caught.value.reason is FailureReason.REFUSED


async def test_series_of_an_invalid_form_make_the_answer_malformed() -> None:
    broken = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": "?"}]}}
    async with serving({"cpu": broken}) as source:
        with pytest.raises(SourceError) as caught:
            await source().read(NOW)

    assert caught.value.reason is FailureReason.MALFORMED


@pytest.mark.parametrize(
    "echo", ["no such user: {}", '{{"status": "error", "errorType": "auth", "error": "{}"}}']
)
async def test_credentials_in_an_error_message_are_masked(echo: str) -> None:
    """The message of a source is written to logs, events and status."""

    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=401, text=echo.format(request.headers["Authorization"]))

    async def access() -> Access:
        return Access({"Authorization": "Basic YW5uOnNlY3JldA=="})

    async with serving({}, answering=refuse) as source:
        with pytest.raises(SourceError) as caught:
            await source(access).read(NOW)

    assert "Basic ***" in str(caught.value)
    assert "YW5u" not in str(caught.value)


async def test_a_reading_sends_credentials_with_each_of_five_queries() -> None:
    async def access() -> Access:
        return Access({"Authorization": "Bearer abc"})

    asked: list[web.Request] = []
    forms: list[Any] = []
    async with serving({}, asked, forms) as source:
        await source(access).read(NOW)

    assert {request.headers["Authorization"] for request in asked} == {"Bearer abc"}
    assert [form["query"] for form in forms] == ["cpu", "memory", "names", "pod_cpu", "pod_memory"]
    assert {form["time"] for form in forms} == {"1800000000.000"}
    assert {form["timeout"] for form in forms} == {"10s"}


async def test_the_past_is_read_in_ranges() -> None:
    start = int(NOW)
    answers = {
        "cpu": answer(
            [({"node": "node-a"}, [[start, "0.1"], [start + 60, "NaN"], [start + 120, "0.3"]])], "matrix"
        ),
        "pod_memory": answer([({"namespace": "shop", "pod": "web-0"}, [[start + 60, "5"]])], "matrix"),
    }
    forms: list[Any] = []
    async with serving(answers, forms=forms) as source:
        past = [each async for each in source().past(range(start, start + 181, 60))]

    assert [at - start for at, _ in past] == [0, 60, 120, 180]
    assert [reading.nodes for _, reading in past] == [
        {"node-a": Use(start, 10.0)},
        {},
        {"node-a": Use(start + 120, 30.0)},
        {},
    ]
    assert past[1][1].pods == {Key("shop", "web-0"): Use(start + 60, None, 5.0)}
    spans = {(form["start"], form["end"], form["step"]) for form in forms if "step" in form}
    assert spans == {(f"{start}", f"{start + 180}", "60")}


async def test_a_long_past_is_read_in_several_ranges() -> None:
    forms: list[Any] = []
    async with serving({}, forms=forms) as source:
        past = [each async for each in source().past(range(0, 900 * 30, 900))]

    assert len(past) == 30
    assert len({form["start"] for form in forms if "step" in form}) == 3
