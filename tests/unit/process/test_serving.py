import socket

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge

from tidelock.serving import ListenError, serve

LOOPBACK = "127.0.0.1"


async def answer(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{LOOPBACK}:{port}{path}") as response:
        return response.status, await response.text()


async def test_probes_answer_what_holds_now() -> None:
    state = {"alive": True, "ready": False}
    probes = {"alive": lambda: state["alive"], "ready": lambda: state["ready"]}
    async with serve(LOOPBACK, 0, CollectorRegistry(), **probes) as port:
        assert (await answer(port, "/healthz"))[0] == 200
        assert (await answer(port, "/readyz"))[0] == 503

        state.update(alive=False, ready=True)

        assert (await answer(port, "/healthz"))[0] == 503
        assert (await answer(port, "/readyz"))[0] == 200


async def test_metrics_are_those_of_the_registry() -> None:
    registry = CollectorRegistry()
    Gauge("tide", "Height.", registry=registry).set(7)
    async with serve(LOOPBACK, 0, registry, alive=bool, ready=bool) as port:
        status, text = await answer(port, "/metrics")

    assert status == 200
    assert "tide 7.0" in text


async def test_a_port_in_use_is_named() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"cannot listen on {LOOPBACK}:{port}: Address already in use"):
            async with serve(LOOPBACK, port, CollectorRegistry(), alive=bool, ready=bool):
                pass
