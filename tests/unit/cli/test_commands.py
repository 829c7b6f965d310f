"""Whole commands against fixed answers: their requests, output and exit status."""

import gc
import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from builders import Json
from tidelock import __version__
from tidelock.cli.app import COMMANDS, make_app
from tidelock.cli.main import complete
from tidelock.kube.client import RESERVATIONS
from tidelock.kube.lease import LEASES
from unit.cli.commands import CLUSTER, run, sentence
from unit.cli.scenes import active_json
from unit.cli.server import Answers, FixedServer, failed, listed


@pytest.mark.parametrize("arguments", [("--version",), ("lint", "--offline", "-f", "/none")])
def test_the_search_for_garbage_is_on_after_a_command(arguments: tuple[str, ...]) -> None:
    run(*arguments)
    assert gc.isenabled()


def test_status_lists_the_namespace_of_the_context(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(CLUSTER)

    assert run("status", "--kubeconfig", str(server.kubeconfig)) == 0

    told = capsys.readouterr()
    assert told.err == ""
    assert told.out.splitlines()[0].split()[:5] == ["NAME", "PHASE", "NODE", "OWNER", "CPU"]
    assert "\x1b" not in told.out
    assert server.asked[0][1].startswith("/apis/tidelock.dev/v1alpha1/namespaces/shop/reservations")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_status_of_all_namespaces_can_be_json_or_yaml(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], form: str
) -> None:
    server = serve(CLUSTER)

    assert run("status", "-A", "-o", form, "--kubeconfig", str(server.kubeconfig)) == 0

    plain = yaml.safe_load(capsys.readouterr().out)  # YAML includes JSON
    assert [each["metadata"]["name"] for each in plain["reservations"]] == ["batch", "large", "used"]
    assert server.asked[0][1].startswith("/apis/tidelock.dev/v1alpha1/reservations")


def test_why_explains_a_pod_with_read_requests_only(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    forbidden = failed(403, "Forbidden", "not you")
    server = serve(CLUSTER | {f"GET /api/v1/{plural}": forbidden for plural in ("namespaces", "services")})

    assert run("why", "pod/web-0", "--kubeconfig", str(server.kubeconfig)) == 0

    told = capsys.readouterr().out
    assert "reserved by shop/batch" in told
    assert "You may not list namespaces, services: plugins" in told  # no other resource is served
    assert {method for method, _, _ in server.asked} == {"GET"}


def test_why_refuses_other_kinds_of_objects(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(CLUSTER)
    assert run("why", "node/a", "--kubeconfig", str(server.kubeconfig)) == 1
    assert "should be a name, pod/NAME or reservation/NAME" in sentence(capsys)


def test_check_reports_missing_parts_in_a_cluster_without_tidelock(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve({"GET /version": (200, {})})

    assert run("check", "--kubeconfig", str(server.kubeconfig), "-o", "json") == 1

    found = {each["matter"]: each["level"] for each in json.loads(capsys.readouterr().out)}
    assert found["CRD reservations"] == found["CRD waterlevels"] == found["Lease"] == "wrong"
    assert found["admission"] == found["answers"] == "note"


def test_check_finds_the_operator_in_another_namespace(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    def lease(namespace: str, renewed: str) -> Json:
        spec = {"holderIdentity": f"{namespace}_1", "renewTime": renewed, "leaseDurationSeconds": 15}
        return {"metadata": {"name": "tidelock", "namespace": namespace}, "spec": spec}

    old, new = lease("old", "2026-01-01T00:00:00.000000Z"), lease("platform", "2026-11-01T00:00:00.000000Z")
    server = serve(
        {
            "GET /version": (200, {}),
            f"GET {LEASES.collection()}": listed(new, old),
            f"GET {LEASES.item('tidelock', 'platform')}": (200, new),
        }
    )
    assert run("check", "--kubeconfig", str(server.kubeconfig), "-o", "json") == 1
    found = {each["matter"]: each["found"] for each in json.loads(capsys.readouterr().out)}
    assert found["Lease"].startswith("platform_1 held Lease platform/tidelock and has been silent for ")
    assert ("GET", f"{LEASES.collection()}?fieldSelector=metadata.name%3Dtidelock&limit=500") in [
        (method, path) for method, path, _ in server.asked
    ]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (failed(401, "Unauthorized", "no"), "does not accept the kubeconfig's credentials: log in again"),
        (
            failed(403, "Forbidden", "user x cannot list pods"),
            "you lack the right: user x cannot",
        ),
        ((404, "404 page not found"), "this cluster has no Tidelock: install it (docs/installation.md)"),
        (failed(500, "InternalError", "etcd is down"), "etcd is down"),
        (
            failed(403, "Forbidden", "reservations is forbidden: not yet ready to handle request"),
            "could not judge the request for now: reservations is forbidden: not yet ready",
        ),
        ((200, "<html>a proxy's page"), "JSON is malformed"),
    ],
)
@pytest.mark.parametrize("command", ["status", "timeline"])
def test_an_error_of_the_api_server_is_printed_as_one_sentence(
    serve: Callable[[Answers], FixedServer],
    capsys: pytest.CaptureFixture[str],
    command: str,
    answer: tuple[int, Any],
    told: str,
) -> None:
    server = serve({f"GET {RESERVATIONS.collection('shop')}": answer})
    assert run(command, "--kubeconfig", str(server.kubeconfig)) == 1
    assert told in sentence(capsys)


def test_an_unreachable_cluster_is_an_error_that_names_its_address(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "dead"
    plain = yaml.safe_load(serve({}).kubeconfig.read_text())
    plain["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    config.write_text(yaml.safe_dump(plain))

    assert run("status", "--kubeconfig", str(config)) == 1
    assert "no answer from http://127.0.0.1:1 (" in sentence(capsys)


def test_a_missing_context_is_an_error_that_names_the_existing_contexts(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(CLUSTER)
    assert run("status", "--context", "prod", "--kubeconfig", str(server.kubeconfig)) == 1
    assert "there is no context 'prod', those that it has: x; name" in sentence(capsys)
    assert run("status", "--context", "x", "--kubeconfig", str(server.kubeconfig)) == 0


def test_a_missing_kubeconfig_is_an_error_that_names_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run("status", "--kubeconfig", str(tmp_path / "none")) == 1
    assert f"kubeconfig {tmp_path / 'none'}: " in sentence(capsys)


def test_why_looks_only_in_the_given_namespace(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(CLUSTER)
    assert run("why", "batch", "-n", "bank", "--kubeconfig", str(server.kubeconfig)) == 1
    assert "there is no pod and no reservation bank/batch" in sentence(capsys)


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--version") == 0
    assert capsys.readouterr().out == f"kubectl tidelock {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_its_summary_and_valid_examples(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert run(name, "--help") == 0
    told = capsys.readouterr().out
    summary = COMMANDS[name].removesuffix(".")
    assert " ".join(told.split("\n\n")[1].split()).startswith(summary)
    assert max(map(len, told.splitlines())) <= 80
    _, _, examples = told.partition("Examples:\n")
    assert examples
    group = typer.main.get_command(make_app())
    for line in examples.splitlines():
        *_, words = [shlex.split(part, comments=True) for part in line.split(" | ")]
        assert words[:3] == ["kubectl", "tidelock", name]
        with group.make_context("kubectl tidelock", words[2:]) as context:
            _, command, arguments = group.resolve_command(context, words[2:])  # type: ignore[attr-defined]
            command.make_context(name, arguments, parent=context).close()


def test_the_help_lists_all_commands_without_their_modules(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    told = capsys.readouterr().out
    assert [line.split()[0] for line in told.partition("Commands:\n")[2].splitlines()] == list(COMMANDS)


def test_a_similar_command_is_suggested(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("statsu") == 2
    assert "Did you mean 'status'?" in capsys.readouterr().err


def test_an_unknown_command_or_option_exits_with_2() -> None:
    assert run("explain") == 2
    assert run("status", "--colour") == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ("reserve", "commit", "quote", "status", "top", "why", "simulate", "timeline", "lint", "check")),
        (("st",), ("status",)),
        (("status", "--na"), ("--namespace",)),
        (("status", "-o", "y"), ("yaml",)),
        (("top", "--all"), ("--all-namespaces",)),
    ],
)
def test_kubectl_completes_commands_options_and_values(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.environ", dict(os.environ))
        patch.setattr("sys.argv", ["kubectl_complete-tidelock", *(words or ("",))])
        complete()
    *offered, directive = capsys.readouterr().out.split()
    assert set(expected) <= set(offered)
    assert directive == ":4"


def test_top_refuses_to_run_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("top", "--kubeconfig", "none") == 1
    assert "top needs a terminal; elsewhere use kubectl tidelock status" in sentence(capsys)


def test_timeline_prints_reservations_as_json(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve({f"GET {RESERVATIONS.collection('shop')}": listed(active_json("batch"))})
    arguments = ("timeline", "--since", "99999d", "--ahead", "99999d", "-o", "json")
    assert run(*arguments, "--kubeconfig", str(server.kubeconfig)) == 0
    assert [each["reservation"] for each in json.loads(capsys.readouterr().out)] == ["shop/batch"]
