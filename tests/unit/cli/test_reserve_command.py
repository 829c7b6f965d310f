"""Whole commands that reserve and commit: their requests, output and exit status."""

import json
from collections.abc import Callable

import pytest

from builders import Json, reservation_json
from tidelock.kube.client import RESERVATIONS
from unit.cli.commands import run, sentence
from unit.cli.scenes import active_json, pending_json, prepared_json
from unit.cli.server import Answers, FixedServer, failed


def test_reserve_without_waiting_only_creates_the_reservation(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve({f"POST {RESERVATIONS.collection('shop')}": (201, reservation_json("web-0"))})

    options = ("-r", "cpu=1", "--ttl", "1h", "--no-wait", "--kubeconfig", str(server.kubeconfig))
    assert run("reserve", "web-0", *options) == 0

    assert capsys.readouterr().out == "reservation/web-0 Pending: created\n"
    ((method, path, body),) = server.asked
    assert method == "POST"
    assert "dryRun" not in path
    assert body["spec"]["ttlSeconds"] == 3600


def test_reserve_refuses_the_name_of_an_existing_reservation(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve({f"POST {RESERVATIONS.collection('shop')}": failed(409, "AlreadyExists", "is there")})
    assert run("reserve", "web-0", "-r", "cpu=1", "--kubeconfig", str(server.kubeconfig)) == 1
    assert "reservation shop/web-0 exists already: delete it first" in sentence(capsys)


def test_reserve_can_create_a_two_phase_reservation(serve: Callable[[Answers], FixedServer]) -> None:
    server = serve({f"POST {RESERVATIONS.collection('shop')}": (201, reservation_json("web-0"))})
    options = ("-r", "cpu=1", "--commit-within", "30s", "--no-wait", "--kubeconfig", str(server.kubeconfig))
    assert run("reserve", "web-0", *options) == 0
    ((_, _, body),) = server.asked
    assert body["spec"]["commit"] == {"withinSeconds": 30}


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (failed(404, "NotFound", "not there"), "there is no reservation shop/hold: it has ended"),
        ((200, active_json("hold")), "reservation shop/hold has no two-phase commit"),
        (
            (200, pending_json("hold", commit={"withinSeconds": 30})),
            "reservation shop/hold holds no capacity to commit, it is Pending: InsufficientCapacity",
        ),
        ((200, prepared_json("hold")), "reservation shop/hold has been replaced by another one"),
    ],
)
def test_commit_reports_why_a_reservation_cannot_be_committed(
    serve: Callable[[Answers], FixedServer],
    capsys: pytest.CaptureFixture[str],
    answer: tuple[int, Json | str],
    told: str,
) -> None:
    path = RESERVATIONS.item("hold", "shop")
    server = serve({f"GET {path}": answer, f"PATCH {path}": failed(409, "Conflict", "uid")})
    assert run("commit", "hold", "--kubeconfig", str(server.kubeconfig)) == 1
    assert told in sentence(capsys)


@pytest.mark.parametrize("output", [(), ("-o", "json")])
def test_commit_prints_the_result(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], output: tuple[str, ...]
) -> None:
    path = RESERVATIONS.item("hold", "shop")
    done = prepared_json("hold", "uid-hold.1", committed=True)
    server = serve({f"GET {path}": (200, done), f"PATCH {path}": (200, done)})
    assert run("commit", "hold", *output, "--kubeconfig", str(server.kubeconfig)) == 0
    printed = capsys.readouterr().out
    if output:
        assert json.loads(printed)["status"]["commit"]["holds"] == 1
    else:
        assert printed == "reservation/hold Active: committed, it holds until 2027-01-15T08:10:00Z\n"
    assert ("PATCH", {"metadata": {"uid": "uid-hold"}, "spec": {"commit": {"token": "uid-hold.1"}}}) in [
        (method, body) for method, _, body in server.asked
    ]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "give either the NAME of a reservation or"),
        (("web-0", "-f", "file"), "give either the NAME of a reservation or"),
        (("web-0",), "--requests: '': should be name=value"),
        (("web-0", "-r", "cpu=two"), "spec.resources: Invalid value"),
        (("Web_0", "-r", "cpu=1"), "spec.owners[0].pod.name: Invalid value"),
    ],
)
def test_reserve_refuses_invalid_arguments_before_any_request(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    assert run("reserve", *arguments, "--kubeconfig", "none") == 1
    assert told in sentence(capsys)
