"""Commands that follow the cluster, and their output for each change."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from builders import NOW, Json, encode, reservation_json
from tidelock.cli import approve, commit, quote, reserve, status
from tidelock.cli.documents import Document
from tidelock.cli.editing import edit
from tidelock.cli.failure import Failure
from tidelock.cli.reservations import ListedReservation
from tidelock.cli.session import Session
from tidelock.kube.client import KubeClient
from tidelock.kube.config import load_connection
from tidelock.model.instants import format_instant
from tidelock.model.outlook import UNPROCESSED
from unit.cli.clouds import planned_json
from unit.cli.quotes import FITS, quote_json
from unit.cli.scenes import active_json, condition, expired_json, lock, pending_json, prepared_json
from unit.kube.kubeconfigs import write_kubeconfig
from unit.kube.scripted import Answer, ScriptedServer, answers, fails, page


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
    server.replays(
        page(waiting, version=5),
        page(version=5),
        page(waiting, version=5),
        server.quiet_watch(event("ADDED", held, 6)),
    )
    watching = asyncio.create_task(status._watch(session, wide=False))
    shown: list[str] = []

    def has_batch() -> bool:
        shown.append(capsys.readouterr().out)
        return "batch" in "".join(shown)

    await until(has_batch)
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
    server.replays(answers(fresh, 201), page(fresh, version=5), server.quiet_watch(*events))
    return await reserve._reserve(session, [wish()], wait=True)


async def test_reserve_waits_until_the_reservation_is_active(
    server: ScriptedServer, session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting, held = pending_json("web-0"), active_json("web-0")

    (result,) = await reserved(server, session, event("MODIFIED", waiting, 6), event("MODIFIED", held, 7))

    assert result.listed.active
    assert result.text == "holds cpu=2,memory=1Gi on node-a until 2027-01-15T08:10:00Z"
    assert [line.split(": ")[1] for line in capsys.readouterr().err.splitlines()] == [
        UNPROCESSED,
        "InsufficientCapacity",
        "holds cpu=2,memory=1Gi on node-a",
    ]


async def test_reserve_stops_waiting_for_a_rejected_reservation(
    server: ScriptedServer, session: Session
) -> None:
    rejected = pending_json("web-0", "DeadlineExceeded")
    rejected["status"]["phase"] = "Rejected"

    (result,) = await reserved(server, session, event("MODIFIED", rejected, 6))

    assert not result.listed.active
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
    server.replays(answers(fresh, 201), page(fresh, version=5), server.quiet_watch())

    (result,) = await reserve._reserve(session, [wish()], wait=True)

    assert result.text == "no answer in time: kubectl tidelock check shows whether the operator runs"


async def test_reserve_ends_with_a_planned_reservation(server: ScriptedServer, session: Session) -> None:
    planned = planned_json("web-0", "node-a", NOW + 3600, NOW + 7200)
    (result,) = await reserved(server, session, event("MODIFIED", planned, 6))
    assert result.text == "will hold cpu=1 on node-a from 2027-01-15T09:00:00Z"


@pytest.mark.parametrize(
    ("deletion", "text"),
    [
        (answers({}), "reservation/web-0 is deleted"),
        (fails(404, "NotFound"), "reservation/web-0 is gone"),
        (
            fails(403, "Forbidden", "may not delete"),
            (
                "reservation/web-0 is still there (403 Forbidden: may not delete), "
                "delete it with kubectl delete -n shop reservation web-0"
            ),
        ),
    ],
)
async def test_an_interrupted_reserve_deletes_what_it_made(
    server: ScriptedServer,
    session: Session,
    deletion: Answer,
    text: str,
) -> None:
    fresh = reservation_json("web-0")
    server.replays(answers(fresh, 201), page(fresh, version=5), server.quiet_watch(), deletion)
    waiting = asyncio.create_task(reserve._reserve(session, [wish()], wait=True))
    await until(lambda: len(server.asked) == 3)
    waiting.cancel()
    with pytest.raises(Failure) as ended:
        await waiting
    assert str(ended.value) == f"interrupted; {text}"
    assert ended.value.status == 130
    assert server.asked[-1].json["preconditions"] == {"uid": "uid-web-0"}


async def test_a_reservation_whose_creation_was_under_way_is_deleted_too(
    server: ScriptedServer, session: Session
) -> None:
    created = asyncio.Event()

    async def slowly(request: web.Request) -> web.StreamResponse:
        await created.wait()
        return await answers(reservation_json("web-0"), 201)(request)

    server.replays(slowly, answers({}))
    waiting = asyncio.create_task(reserve._reserve(session, [wish()], wait=True))
    await until(lambda: bool(server.asked))
    waiting.cancel()
    await asyncio.sleep(0)
    created.set()
    with pytest.raises(Failure, match="interrupted; reservation/web-0 is deleted"):
        await waiting


def moving_json(*, begun: bool = False, other: bool = False, **fields: Any) -> Json:
    """Return a waiting reservation with a plan of one move."""
    moves = [{"namespace": "shop", "name": "web-1", "uid": "u", "to": "node-b"}]
    plan: Json = {"token": "5b1f0a9c3d27", "nodeName": "node-a", "evictions": moves}
    if begun:
        plan["begunAt"] = format_instant(NOW)
    plain = pending_json("hold", mayMove={}, **fields)
    plain["status"]["plan"] = plan
    reason = "TokenMismatch" if other else "Moving" if begun else "MovePlanned"
    plain["status"]["conditions"].append(condition("MovePlanned", "True", reason, "of another plan"))
    return plain


@pytest.mark.parametrize(
    ("end", "text"),
    [
        (moving_json(begun=True), "moving 1 pod of node-a: shop/web-1 to node-b"),
        (moving_json(other=True), "not approved, TokenMismatch: of another plan"),
        (active_json("hold", mayMove={}), "holds cpu=2,memory=1Gi on node-a"),
    ],
)
async def test_approve_waits_until_the_moves_begin(
    server: ScriptedServer, session: Session, end: Json, text: str
) -> None:
    patched = moving_json()
    patched["metadata"]["generation"] = 2
    end["metadata"]["generation"] = end["status"]["observedGeneration"] = 2
    server.replays(
        answers(moving_json()),
        answers(patched),
        page(patched, version=5),
        server.quiet_watch(event("MODIFIED", end, 6)),
    )
    found, late = await edit(
        session,
        "hold",
        lambda found: {"mayMove": {"approve": approve.planned_token(found)}},
        lambda found: approve.settled(ListedReservation(found)),
    )
    assert (late, approve.sentence(ListedReservation(found))) == ("", text)
    assert approve.begun(ListedReservation(found)) == ("not approved" not in text)
    assert server.asked[1].json["spec"] == {"mayMove": {"approve": "5b1f0a9c3d27"}}


@pytest.mark.parametrize(
    ("plain", "text"),
    [
        (pending_json("hold"), "lets no pods move: set spec.mayMove"),
        (pending_json("hold", mayMove={}), "has no plan of moves to approve, it is Pending: Insufficient"),
    ],
)
def test_approve_reports_why_there_is_nothing_to_approve(plain: Json, text: str) -> None:
    with pytest.raises(Failure, match=text):
        approve.planned_token(lock(plain))


@pytest.mark.parametrize(
    ("token", "end", "phase", "text"),
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
    server: ScriptedServer, session: Session, token: str, end: Json, phase: str, text: str
) -> None:
    """Right after the patch, the operator has not processed it yet."""
    before = prepared_json("hold")
    patched = prepared_json("hold", token or "uid-hold.1")
    patched["status"]["conditions"] = before["status"]["conditions"]
    patched["metadata"]["generation"] = 2
    for each in (end, patched):
        each["spec"] = patched["spec"]
    end["metadata"]["generation"] = end["status"]["observedGeneration"] = 2
    server.replays(
        answers(before),
        answers(patched),
        page(patched, version=5),
        server.quiet_watch(event("MODIFIED", end, 6)),
    )
    found_lock, late = await edit(
        session,
        "hold",
        lambda found: {"commit": {"token": token or commit.held_token(found)}},
        lambda found: commit.answered(ListedReservation(found)),
    )
    assert late == ""
    assert (found_lock.status["phase"], ListedReservation(found_lock).decided) == (phase, True)
    assert commit.sentence(ListedReservation(found_lock)).startswith(text)


async def test_quote_waits_for_the_answer_and_deletes_the_quote(
    server: ScriptedServer, session: Session
) -> None:
    made, answered = quote_json({"observedGeneration": -1}), event("MODIFIED", quote_json(FITS), 6)
    server.replays(answers(made, 201), page(made, version=5), server.quiet_watch(answered), answers({}))

    assert await quote._status(session, quote.QuoteQuestion("web-0", wish()), patience=30) == FITS

    assert server.asked[-1].method == "DELETE"
