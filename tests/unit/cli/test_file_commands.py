"""Whole commands that read a file: simulate and lint."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from builders import Json, pod_json, reservation_json
from tidelock.kube.client import PODS, RESERVATIONS
from unit.cli.commands import CLUSTER, RESERVATION, reservation_file, run, sentence
from unit.cli.server import Answers, FixedServer, failed


def test_simulate_sends_only_dry_run_writes(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lock, pod = reservation_json("new", owner="new-0"), pod_json("new-0")
    server = serve(
        CLUSTER
        | {
            f"PATCH {RESERVATIONS.item('new', 'shop')}": (200, lock),
            f"POST {PODS.collection('shop')}": (201, pod),
        }
    )
    file = tmp_path / "file.yaml"
    file.write_text(yaml.safe_dump_all([{**RESERVATION, **lock}, {"kind": "Pod", **pod}]))

    assert run("simulate", "-f", str(file), "-o", "json", "--kubeconfig", str(server.kubeconfig)) == 0

    outcomes = json.loads(capsys.readouterr().out)["outcomes"]
    assert [(each["object"], each["outcome"]) for each in outcomes] == [
        ("reservation shop/new", "Consumed"),
        ("pod shop/new-0", "bound"),
    ]
    writes = [path for method, path, _ in server.asked if method != "GET"]
    assert len(writes) == 2
    assert all("dryRun=All" in path for path in writes)


def test_simulate_exits_with_1_without_enough_capacity(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lock = reservation_json("new", resources={"cpu": "64"})
    server = serve(CLUSTER | {f"PATCH {RESERVATIONS.item('new', 'shop')}": (200, lock)})
    file = tmp_path / "file.yaml"
    file.write_text(yaml.safe_dump({**RESERVATION, **lock}))

    assert run("simulate", "-f", str(file), "--kubeconfig", str(server.kubeconfig)) == 1
    assert "InsufficientCapacity" in capsys.readouterr().out


SERVICE: Json = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}


def test_simulate_skips_other_kinds_with_a_note(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    body = RESERVATION | reservation_json("new")
    server = serve(CLUSTER | {f"PATCH {RESERVATIONS.item('new', 'shop')}": (200, body)})
    file = tmp_path / "file.yaml"
    file.write_text(yaml.safe_dump_all([SERVICE, body]))

    assert run("simulate", "-f", str(file), "--kubeconfig", str(server.kubeconfig)) == 0

    told = capsys.readouterr().out
    assert f"{file}: document 1 (Service/web): skipped, as this kind is not simulated." in told
    assert "reservation shop/new" in told


def test_simulate_refuses_a_file_with_nothing_to_simulate_and_an_unknown_field(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(yaml.safe_dump(SERVICE))
    assert run("simulate", "-f", str(file), "--kubeconfig", "none") == 1
    assert "nothing in it can be simulated, only Pod, Reservation, Deployment" in sentence(capsys)
    assert run("simulate", "-f", reservation_file(tmp_path, ownrs=[]), "--kubeconfig", "none") == 1
    assert 'unknown field "spec.ownrs", did you mean "owners"?' in sentence(capsys)


def test_lint_skips_other_kinds_with_a_note(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = Path(reservation_file(tmp_path))
    file.write_text(f"{yaml.safe_dump(SERVICE)}---\n{file.read_text()}")
    assert run("lint", "--offline", "-f", str(file)) == 0
    assert "(Service/web): skipped, it is not of tidelock.dev/v1alpha1" in capsys.readouterr().out
    assert run("lint", "--offline", "-f", str(file), "-o", "json") == 0
    assert [each["skipped"] for each in json.loads(capsys.readouterr().out)] == [True, False]


def test_lint_checks_rules_between_fields_by_a_dry_run(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = "Reservation.tidelock.dev is invalid: exactly one of expireAt and ttlSeconds is required"
    server = serve({f"PATCH {RESERVATIONS.item('lock', 'shop')}": failed(422, "Invalid", said)})
    file = reservation_file(tmp_path, expireAt="2027-01-01T00:00:00Z")

    assert run("lint", "-f", file, "--kubeconfig", str(server.kubeconfig)) == 1

    assert said in capsys.readouterr().out
    ((_, path, _),) = server.asked
    assert "dryRun=All" in path


def test_lint_checks_files_offline(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("lint", "--offline", "-f", reservation_file(tmp_path)) == 0
    assert capsys.readouterr().out.endswith(": ok, rules between fields not checked\n")
    assert run("lint", "--offline", "-f", reservation_file(tmp_path, ttlSeconds=0)) == 1
    assert "spec.ttlSeconds: Invalid value: 0: should be" in capsys.readouterr().out


def test_lint_suggests_the_offline_mode_if_the_dry_run_is_forbidden(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server = serve({f"PATCH {RESERVATIONS.item('lock', 'shop')}": failed(403, "Forbidden", "no rights")})
    assert run("lint", "-f", reservation_file(tmp_path), "--kubeconfig", str(server.kubeconfig)) == 1
    assert "no rights; --offline checks all but" in sentence(capsys)
