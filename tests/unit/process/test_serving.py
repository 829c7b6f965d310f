import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Gauge

from tidelock.serving import MetricsToken, serve
from tidelock.tcp_server import ListenError
from tidelock.tokens import TokenError

LOOPBACK = "127.0.0.1"


async def answer(port: int, path: str, headers: Mapping[str, str] = {}) -> tuple[int, str]:
    url = f"http://{LOOPBACK}:{port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status, await response.text()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with a token and a newline, as `kubectl create secret --from-file` accepts it."""
    path = tmp_path / "token"
    path.write_text("first\n")
    return path


async def test_probes_return_the_current_state() -> None:
    state = {"alive": True, "ready": False}
    async with serve(
        LOOPBACK, 0, CollectorRegistry(), alive=lambda: state["alive"], ready=lambda: state["ready"]
    ) as port:
        assert (await answer(port, "/healthz"))[0] == 200
        assert (await answer(port, "/readyz"))[0] == 503

        state.update(alive=False, ready=True)

        assert (await answer(port, "/healthz"))[0] == 503
        assert (await answer(port, "/readyz"))[0] == 200


async def test_details_of_readiness_are_shown_on_request_and_do_not_change_the_result() -> None:
    state, parts = {"ready": True}, {"watch/pods": "", "kopf/waterlevels": "Forbidden"}
    async with serve(
        LOOPBACK, 0, CollectorRegistry(), alive=bool, ready=lambda: state["ready"], details=lambda: parts
    ) as port:
        assert await answer(port, "/readyz") == (200, "ok")
        lines = "[+]watch/pods ok\n[-]kopf/waterlevels failed: Forbidden\n"
        assert await answer(port, "/readyz?verbose") == (200, f"{lines}readyz check passed\n")

        state["ready"] = False

        assert await answer(port, "/readyz?verbose") == (503, f"{lines}readyz check failed\n")


async def test_the_metrics_of_the_registry_are_served() -> None:
    registry = CollectorRegistry()
    Gauge("tide", "Height.", registry=registry).set(7)
    async with serve(LOOPBACK, 0, registry, alive=bool, ready=bool) as port:
        status, text = await answer(port, "/metrics")

    assert status == 200
    assert "tide 7.0" in text


@pytest.fixture
def port_in_use() -> Iterator[int]:
    with socket.create_server((LOOPBACK, 0)) as taken:
        yield taken.getsockname()[1]


async def test_metrics_are_not_served_at_a_port_in_use(port_in_use: int) -> None:
    with pytest.raises(ListenError, match=f"{port_in_use}: Address already in use; .* by --port"):
        async with serve(LOOPBACK, port_in_use, CollectorRegistry(), alive=bool, ready=bool):
            pass


NOT_OURS = r"cannot listen on \S+:8080: \w.*; name an address of this machine by --listen"


async def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(ListenError, match=NOT_OURS):
        async with serve("192.0.2.1", 8080, CollectorRegistry(), alive=bool, ready=bool):
            pass


async def test_an_invalid_address_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(ListenError, match=NOT_OURS):
        async with serve("nowhere", 8080, CollectorRegistry(), alive=bool, ready=bool):
            pass


async def test_metrics_are_served_for_the_right_token(file: Path) -> None:
    registry = CollectorRegistry()
    Gauge("tide", "Height.", registry=registry).set(7)
    async with serve(LOOPBACK, 0, registry, alive=bool, ready=bool, token=MetricsToken(file)) as port:
        status, text = await answer(port, "/metrics", bearer("first"))
        lower = await answer(port, "/metrics", {"Authorization": "bearer first"})

    assert status == 200
    assert "tide 7.0" in text
    assert lower == (status, text)


@pytest.mark.parametrize(
    "headers",
    [{}, bearer(""), bearer("firs"), bearer("first!"), bearer("é"), {"Authorization": "Basic first"}],
    ids=["none", "empty", "shorter", "longer", "no ascii", "another scheme"],
)
async def test_metrics_are_refused_without_the_right_token(file: Path, headers: dict[str, str]) -> None:
    registry = CollectorRegistry()
    Gauge("tide", "Height.", registry=registry)
    async with serve(LOOPBACK, 0, registry, alive=bool, ready=bool, token=MetricsToken(file)) as port:
        assert await answer(port, "/metrics", headers) == (401, "")


async def test_probes_need_no_token(file: Path) -> None:
    async with serve(
        LOOPBACK, 0, CollectorRegistry(), alive=lambda: True, ready=lambda: True, token=MetricsToken(file)
    ) as port:
        assert (await answer(port, "/healthz"))[0] == 200
        assert (await answer(port, "/readyz"))[0] == 200


async def test_a_changed_token_is_used_at_once(file: Path) -> None:
    async with serve(
        LOOPBACK, 0, CollectorRegistry(), alive=bool, ready=bool, token=MetricsToken(file)
    ) as port:
        file.write_text("second")  # noqa: ASYNC240 -- a moment
        statuses = [(await answer(port, "/metrics", bearer(token)))[0] for token in ("first", "second")]

    assert statuses == [401, 200]


async def test_metrics_are_refused_if_the_token_file_is_removed(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(
        LOOPBACK, 0, CollectorRegistry(), alive=bool, ready=bool, token=MetricsToken(file)
    ) as port:
        file.unlink()  # noqa: ASYNC240 -- a moment
        status, _ = await answer(port, "/metrics", bearer("first"))

    assert status == 503
    assert vars(caplog.records[-1])["error"] == f"metrics token file {file}: No such file or directory"


def test_an_unreadable_token_is_an_error_at_the_start(file: Path) -> None:
    file.write_text(" \n")
    with pytest.raises(TokenError, match="is empty, expected a token"):
        MetricsToken(file)
    file.unlink()
    with pytest.raises(TokenError, match="No such file or directory"):
        MetricsToken(file)
