import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus

import aiohttp
import pytest
from aiohttp import web

from devcluster.loopback import HOST
from faults.observations import Stamps
from faults.plan import Fault, make_plan
from faults.proxy import Proxy

_BINDING = "/api/v1/namespaces/w/pods/web-0/binding"
_EVENTS = 6
_PATIENCE = 60.0


class Upstream:
    """An API server that records its requests. Its watches deliver six pods, and end or stay open."""

    def __init__(self) -> None:
        self.reached: list[str] = []
        self.ends = True

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.reached.append(f"{request.method} {request.path_qs}")
        if "watch" not in request.query:
            return web.json_response({"kind": "Status", "status": "Success"}, status=201)
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(_EVENTS):
            event = {"type": "ADDED", "object": {"number": number}}
            await response.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
        if not self.ends:
            await asyncio.Future()
        return response


class Operator:
    """A client of the proxy in the place of the operator."""

    def __init__(self, upstream: Upstream, proxy: Proxy, session: aiohttp.ClientSession, url: str) -> None:
        self.upstream = upstream
        self.proxy = proxy
        self.session = session
        self.url = url

    async def bind(self) -> int:
        """Bind a pod, and return the status of the answer, or 0 if there is none."""
        try:
            async with self.session.post(self.url + _BINDING, json={}) as answer:
                await answer.read()
                return answer.status
        except (aiohttp.ClientError, TimeoutError):
            return 0

    async def watch(self, most: int = 100) -> list[int]:
        """Watch pods to the end, and return their numbers, or negative codes of errors.

        After `most` events the operator hangs up.
        """
        told: list[int] = []
        with suppress(aiohttp.ClientError):
            async with self.session.get(f"{self.url}/api/v1/pods?watch=true") as answer:
                if answer.status != HTTPStatus.OK:
                    return [-answer.status]
                while len(told) < most and (line := await answer.content.readline()).endswith(b"\n"):
                    told.append(_number(json.loads(line)))
        return told

    async def list(self) -> None:
        """List pods."""
        async with self.session.get(f"{self.url}/api/v1/pods") as answer:
            await answer.read()


def _number(event: dict[str, dict[str, int]]) -> int:
    return event["object"].get("number", -event["object"].get("code", 0))


@asynccontextmanager
async def _behind(faults: Mapping[tuple[str, int], Fault]) -> AsyncIterator[Operator]:
    upstream = Upstream()
    server = web.ServerRunner(web.Server(upstream.handle, handler_cancellation=True))
    await server.setup()
    await web.TCPSite(server, HOST, 0).start()
    limits = aiohttp.ClientTimeout(total=_PATIENCE)
    async with aiohttp.ClientSession() as session, aiohttp.ClientSession(timeout=limits) as asking:
        url = f"http://{HOST}:{server.addresses[0][1]}"
        proxy = Proxy(session, url, namespace="w", selector="of=w", faults=faults, stamps=Stamps(lambda: 0.0))
        try:
            yield Operator(upstream, proxy, asking, await proxy.open())
        finally:
            await proxy.shut()
            await server.cleanup()


@pytest.mark.parametrize(
    ("fault", "status", "applied"),
    [
        (Fault("lost"), 0, True),
        (Fault("reset"), 0, False),
        (Fault("refused", code=403), 403, False),
        (Fault("broken", code=500), 500, True),
        (Fault("late", seconds=0.01), 201, True),
        (Fault("slow", seconds=0.01), 201, True),
        (Fault("torn"), 0, True),
    ],
    ids=str,
)
async def test_a_fault_affects_its_write_and_not_the_next(fault: Fault, status: int, applied: bool) -> None:
    async with _behind({("bind", 1): fault}) as operator:
        assert await operator.bind() == status
        assert operator.upstream.reached == [f"POST {_BINDING}"] * applied
        assert await operator.bind() == 201


@pytest.mark.parametrize(("when", "applied"), [("crash before", False), ("crash after", True)])
async def test_a_crash_before_or_after_a_write_leaves_it_without_an_answer(when: str, applied: bool) -> None:
    async with _behind({("bind", 1): Fault(when)}) as operator:
        binding = asyncio.create_task(operator.bind())
        await asyncio.wait_for(operator.proxy.crash.wait(), _PATIENCE)
        await operator.proxy.shut()
        assert await binding == 0
        assert operator.upstream.reached == [f"POST {_BINDING}"] * applied
        assert not operator.proxy.crash.is_set()


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (Fault("delay", 0.01), [0, 1, 2, 3, 4, 5]),
        (Fault("double"), [0, 1, 1, 2, 3, 4, 5]),
        (Fault("cut"), [0]),
        (Fault("end"), [0]),
        (Fault("error"), [0, -500]),
        (Fault("swap", _PATIENCE), [0, 2, 1, 3, 4, -410]),
        (Fault("drop", _PATIENCE), [0, 2, 3, 4, -410]),
        (Fault("gap", 0.01), [0, -410]),
    ],
    ids=str,
)
async def test_a_fault_affects_its_event_and_not_the_next_watch(fault: Fault, told: list[int]) -> None:
    async with _behind({("line pods", 2): fault}) as operator:
        assert await operator.watch() == told
        await operator.list()
        assert await operator.watch() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("what", ["swap", "drop", "gap"])
async def test_an_operator_that_hung_up_during_a_gap_gets_410_at_its_next_watch(what: str) -> None:
    """An operator that hung up before the end of a gap was never informed that events were missing."""
    async with _behind({("line pods", 1): Fault(what, _PATIENCE)}) as operator:
        operator.upstream.ends = False
        watching = asyncio.create_task(operator.watch())
        async with asyncio.timeout(_PATIENCE):
            while not operator.proxy.fired:  # noqa: ASYNC110 -- there is no event for it
                await asyncio.sleep(0.01)
        watching.cancel()
        assert await operator.watch() == [-410]
        await operator.list()
        assert await operator.watch(most=_EVENTS) == [0, 1, 2, 3, 4, 5]


async def test_a_silent_watch_stays_open_until_the_operator_hangs_up() -> None:
    async with _behind({("line pods", 1): Fault("silence")}) as operator:
        async with operator.session.get(f"{operator.url}/api/v1/pods?watch=true") as answer:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(answer.content.readany(), 0.2)
        assert operator.proxy.fired == ["line pods 1: silence 0 s"]


async def test_a_storm_refuses_all_requests_until_the_faults_stop() -> None:
    async with _behind({}) as operator:
        operator.proxy.storm(429, _PATIENCE)
        assert await operator.bind() == 429
        operator.proxy.calm()
        assert await operator.bind() == 201


async def test_an_operator_sees_only_its_own_namespace_and_nodes() -> None:
    async with _behind({}) as operator:
        for path in ("/api/v1/nodes?limit=2", "/api/v1/pods", "/apis/tidelock.dev/v1alpha1/reservations"):
            async with operator.session.get(operator.url + path) as answer:
                await answer.read()
        assert operator.upstream.reached == [
            "GET /api/v1/nodes?limit=2&labelSelector=of%3Dw",
            "GET /api/v1/namespaces/w/pods",
            "GET /apis/tidelock.dev/v1alpha1/namespaces/w/reservations",
        ]


def test_a_seed_makes_the_same_plan_each_time() -> None:
    assert [str(make_plan(seed)) for seed in range(50)] == [str(make_plan(seed)) for seed in range(50)]
    assert len({str(make_plan(seed)) for seed in range(50)}) == 50


def test_a_discovery_answer_is_passed_on_unchanged() -> None:
    """The answer names the kind of reservations, and the proxy looked for the metadata of one."""
    resources = {"kind": "APIResourceList", "resources": [{"name": "reservations", "kind": "Reservation"}]}
    text = json.dumps(resources, separators=(",", ":")).encode()
    assert Stamps(lambda: 0.0).rewritten(text) == text
