"""Commands that follow the cluster, and their output for each change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from builders import Json, encode, reservation_json
from tidelock.cli import commit, quote, reserve, status
from tidelock.cli.documents import Document
from tidelock.cli.locks import Seen
from tidelock.cli.session import Session
from tidelock.kube.client import KubeClient
from tidelock.kube.config import load_connection
from unit.cli.quotes import FITS, quote_json
from unit.cli.scenes import active_json, expired_json, pending_json, prepared_json
from unit.kube.kubeconfigs import write_kubeconfig
from unit.kube.scripted import ScriptedServer, answers, page


@pytest.fixture
async def session(server: ScriptedServer, tmp_path: Path) -> AsyncIterator[Session]:
    connection = load_connection(write_kubeconfig(tmp_path / "kubeconfig", server.url, {}))
    async with KubeClient(connection, user_agent="test", timeout_seconds=5.0) as client:
        yield Session(client, "shop")


def event(kind: str, plain: Json, version: int) -> bytes:
    plain["metadata"]["resourceVersion"] = str(version)
    return encode({"type": kind, "object": plain}) + b"\n"


async def until(accept: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not accept():  # noqa: ASYNC110 -- printing sets no event
            await asyncio.sleep(0.01)


async def test_status_follows_changes(
    server: ScriptedServer, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting, held = pending_json("large"), active_json("batch")
    server.plays(
        page(waiting, version=5),
        page(version=5),
        page(waiting, version=5),
        server.quiet_watch(event("ADDED", held, 6)),
    )
    watching = asyncio.create_task(status._watch(session, wide=False))
    shown: list[str] = []

    def told() -> bool:
        shown.append(capsys.readouterr().out)
        return "batch" in "".join(shown)

    await until(told)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    first, *_ = "".join(shown).split("batch")
    assert "large" in first
    assert "Pending" in first


def wish(name: str = "web-0") -> Document:
    return Document(
        f"reservation/{name}",
        {
            "apiVersion": "tidelock.dev/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": name},
            "spec": reservation_json(name)["spec"],
        },
    )


async def reserved(server: ScriptedServer, session: Session, *events: bytes) -> list[reserve.Result]:
    """Create a reservation, with these events of the watch after the creation."""
    fresh = reservation_json("web-0")
    server.plays(answers(fresh, 201), page(fresh, version=5), server.quiet_watch(*events))
    return await reserve._reserve(session, [wish()], wait=True)


async def test_reserve_waits_until_the_reservation_is_active(
    server: ScriptedServer, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting, held = pending_json("web-0"), active_json("web-0")

    (result,) = await reserved(server, session, event("MODIFIED", waiting, 6), event("MODIFIED", held, 7))

    assert result.seen.active
    assert result.text == "holds cpu=2,memory=1Gi on node-a until 2027-01-15T08:10:00Z"
    assert [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()] == [
        "the operator has not processed it yet",
        "InsufficientCapacity",
        "holds cpu=2,memory=1Gi on node-a",
    ]


async def test_reserve_stops_waiting_for_a_rejected_reservation(
    server: ScriptedServer, session: Session
) -> None:
    rejected = pending_json("web-0", "DeadlineExceeded")
    rejected["status"]["phase"] = "Rejected"

    (result,) = await reserved(server, session, event("MODIFIED", rejected, 6))

    assert not result.seen.active
    assert result.text.startswith("DeadlineExceeded: 0/4 nodes are available")
    assert result.raw["status"]["phase"] == "Rejected"


async def test_reserve_reports_a_deleted_reservation(server: ScriptedServer, session: Session) -> None:
    (result,) = await reserved(server, session, event("DELETED", reservation_json("web-0"), 6))
    assert result.text == "it was deleted meanwhile"


async def test_reserve_reports_an_operator_that_does_not_answer(
    server: ScriptedServer, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reserve, "_GRACE", 0.1)
    fresh: dict[str, Any] = reservation_json("web-0", pendingDeadlineSeconds=0)
    server.plays(answers(fresh, 201), page(fresh, version=5), server.quiet_watch())

    (result,) = await reserve._reserve(session, [wish()], wait=True)

    assert result.text == "no answer in time: kubectl tidelock check shows whether the operator runs"


@pytest.mark.parametrize(
    ("token", "end", "phase", "told"),
    [
        ("", prepared_json("hold", "uid-hold.1", committed=True), "Active", "committed, it holds until 2027"),
        (
            "old",
            prepared_json("hold", "old"),
            "Active",
            "not committed, TokenMismatch: spec.commit.token old",
        ),
        ("", expired_json("hold"), "Expired", "NotCommitted: its time was over"),
    ],
)
async def test_commit_waits_until_the_operator_has_answered(
    server: ScriptedServer, session: Session, token: str, end: Json, phase: str, told: str
) -> None:
    """Right after the patch, the operator has not processed it yet."""
    before = prepared_json("hold")
    patched = prepared_json("hold", token or "uid-hold.1")
    patched["status"]["conditions"] = before["status"]["conditions"]
    patched["metadata"]["generation"] = 2
    for each in (end, patched):
        each["spec"] = patched["spec"]
    end["metadata"]["generation"] = end["status"]["observedGeneration"] = 2
    server.plays(
        answers(before),
        answers(patched),
        page(patched, version=5),
        server.quiet_watch(event("MODIFIED", end, 6)),
    )
    lock, late = await commit._commit(session, "hold", token)
    assert late == ""
    assert (lock.status["phase"], Seen(lock).decided) == (phase, True)
    assert commit.sentence(Seen(lock)).startswith(told)


async def test_quote_waits_for_the_answer_and_deletes_the_quote(
    server: ScriptedServer, session: Session
) -> None:
    made, answered = quote_json({"observedGeneration": -1}), event("MODIFIED", quote_json(FITS), 6)
    server.plays(answers(made, 201), page(made, version=5), server.quiet_watch(answered), answers({}))

    assert await quote._status(session, quote.QuoteQuestion("web-0", wish()), patience=30) == FITS

    assert server.asked[-1].method == "DELETE"
