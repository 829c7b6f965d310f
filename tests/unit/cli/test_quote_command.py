"""The command quote: its requests, output and exit status."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidelock.kube.client import RESERVATIONQUOTES, RESERVATIONS
from unit.cli.commands import reservation_file, run, sentence
from unit.cli.quotes import FITS, LATER, quote_json
from unit.cli.server import Answers, FixedServer

QUOTES = RESERVATIONQUOTES.collection("shop")


def quoting(status: dict[str, Any]) -> Answers:
    """Return the answers for a quote with this status."""
    return {
        f"POST {QUOTES}": (201, quote_json(status)),
        f"DELETE {QUOTES}/quote-x7": (200, {}),
    }


@pytest.mark.parametrize(("status", "code"), [(FITS, 0), (LATER, 1)])
def test_quote_reports_the_answer_and_deletes_the_quote(
    serve: Callable[[Answers], FixedServer],
    capsys: pytest.CaptureFixture[str],
    status: dict[str, Any],
    code: int,
) -> None:
    server = serve(quoting(status))

    arguments = ("-r", "cpu=2", "--node", "a", "-o", "json", "--kubeconfig", str(server.kubeconfig))
    assert run("quote", *arguments) == code

    (told,) = json.loads(capsys.readouterr().out)
    assert (told["asked"], told["feasible"], told["status"]) == ("cpu=2", code == 0, status)
    writes = [(method, body) for method, _, body in server.asked if method != "GET"]
    (_, made), (deletion, options) = writes
    assert made["metadata"] == {"generateName": "quote-"}
    assert made["spec"] == {"resources": {"cpu": "2"}, "nodeName": "a", "ttlSeconds": 60}
    assert deletion == "DELETE"
    assert options["preconditions"] == {"uid": "u"}


def test_an_unanswered_quote_is_deleted(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(quoting({"observedGeneration": -1}))
    arguments = ("-r", "cpu=2", "--timeout", "0s", "--kubeconfig", str(server.kubeconfig))
    assert run("quote", *arguments) == 1
    assert "no answer in time: kubectl tidelock check shows" in sentence(capsys)
    assert server.asked[-1][0] == "DELETE"


def test_quote_of_several_clusters_succeeds_if_one_of_them_fits(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(quoting(FITS))
    plain = yaml.safe_load(server.kubeconfig.read_text())
    plain["clusters"].append({"name": "dead", "cluster": {"server": "http://127.0.0.1:1"}})
    plain["contexts"].append({"name": "y", "context": {"cluster": "dead", "user": "u"}})
    server.kubeconfig.write_text(yaml.safe_dump(plain))
    both = ("--context", "x", "--context", "y", "--kubeconfig", str(server.kubeconfig))

    assert run("quote", "-r", "cpu=2", *both) == 0

    told = capsys.readouterr().out
    assert [line.split()[:3] for line in told.splitlines()[1:3]] == [
        ["x", "cpu=2", "now"],
        ["y", "cpu=2", "unknown"],
    ]
    assert "y: cpu=2: no answer from http://127.0.0.1:1" in told


def test_quote_reads_a_file(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server = serve(quoting(FITS))
    assert run("quote", "-f", reservation_file(tmp_path), "--kubeconfig", str(server.kubeconfig)) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:3] == ["lock", "now", "node-a"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "give either --requests or, with -f, a FILE"),
        (("-r", "cpu=1", "-f", "file"), "give either --requests or, with -f, a FILE"),
        (("-r", "cpu=two"), "quote: spec.resources: Invalid value"),
        (("-r", "cpu=1", "--timeout", "soon"), "--timeout: 'soon': should be a duration"),
    ],
)
def test_quote_refuses_invalid_arguments_before_any_request(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str
) -> None:
    assert run("quote", *arguments, "--kubeconfig", "none") == 1
    assert told in sentence(capsys)


def test_quote_refuses_files_with_other_kinds(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    quota = {"apiVersion": RESERVATIONS.api_version, "kind": "ReservationQuota", "metadata": {"name": "q"}}
    file.write_text(yaml.safe_dump(quota | {"spec": {"maxPriority": 0}}))
    assert run("quote", "-f", str(file), "--kubeconfig", "none") == 1
    assert "(ReservationQuota/q): should be a Reservation or a ReservationQuote" in sentence(capsys)
