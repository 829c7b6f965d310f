"""Whole commands against fixed answers: their requests, output and exit status."""

import gc
import json
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from builders import Json, pod_json, reservation_json
from tidelock import __version__
from tidelock.cli.app import COMMANDS, make_app
from tidelock.cli.main import complete, main
from tidelock.kube.client import NODES, PODS, RESERVATIONQUOTES, RESERVATIONS, WATERLEVELS
from tidelock.kube.lease import LEASES
from unit.cli.quotes import FITS, LATER, quote_json
from unit.cli.scenes import LOCKS, active_json, pending_json, prepared_json
from unit.cli.scenes import NODES as NODE_OBJECTS
from unit.cli.scenes import PODS as POD_OBJECTS
from unit.cli.server import Answers, FixedServer, failed, listed, serving

CLUSTER: Answers = {
    f"GET {NODES.collection()}": listed(*NODE_OBJECTS),
    f"GET {PODS.collection()}": listed(*POD_OBJECTS),
    f"GET {RESERVATIONS.collection()}": listed(*LOCKS),
    f"GET {RESERVATIONS.collection('shop')}": listed(*LOCKS),
    f"GET {WATERLEVELS.collection()}": listed(),
}

RESERVATION: Json = {"apiVersion": RESERVATIONS.api_version, "kind": "Reservation"}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Answers], FixedServer]]:
    with ExitStack() as stack:
        yield lambda answers: stack.enter_context(serving(answers, tmp_path))


def run(*arguments: str) -> int:
    """Run the command as the console script does, and return its exit status."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["kubectl-tidelock", *arguments])
        with pytest.raises(SystemExit) as left:
            main()
    code = left.value.code
    return code if isinstance(code, int) else 0


def sentence(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the error message, which is one line."""
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: ")
    assert told.err.count("\n") == 1, told.err
    return told.err


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
    server = serve(CLUSTER)

    assert run("why", "pod/web-0", "--kubeconfig", str(server.kubeconfig)) == 0

    told = capsys.readouterr().out
    assert "reserved by shop/batch" in told
    assert "You may not list namespaces, services" in told
    assert {method for method, _, _ in server.asked} == {"GET"}


def test_why_refuses_other_kinds_of_objects(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str]
) -> None:
    server = serve(CLUSTER)
    assert run("why", "node/a", "--kubeconfig", str(server.kubeconfig)) == 1
    assert "should be a name, pod/NAME or reservation/NAME" in sentence(capsys)


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
    assert run("simulate", "-f", lint_file(tmp_path, ownrs=[]), "--kubeconfig", "none") == 1
    assert 'unknown field "spec.ownrs", did you mean "owners"?' in sentence(capsys)


def test_lint_skips_other_kinds_with_a_note(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = Path(lint_file(tmp_path))
    file.write_text(f"{yaml.safe_dump(SERVICE)}---\n{file.read_text()}")
    assert run("lint", "--offline", "-f", str(file)) == 0
    assert "(Service/web): skipped, it is not of tidelock.dev/v1alpha1" in capsys.readouterr().out
    assert run("lint", "--offline", "-f", str(file), "-o", "json") == 0
    assert [each["skipped"] for each in json.loads(capsys.readouterr().out)] == [True, False]


def lint_file(folder: Path, **spec: Any) -> str:
    file = folder / "file.yaml"
    body = RESERVATION | reservation_json(**spec)
    file.write_text(yaml.safe_dump(body))
    return str(file)


def test_lint_checks_rules_between_fields_by_a_dry_run(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    said = "Reservation.tidelock.dev is invalid: exactly one of expireAt and ttlSeconds is required"
    server = serve({f"PATCH {RESERVATIONS.item('lock', 'shop')}": failed(422, "Invalid", said)})
    file = lint_file(tmp_path, expireAt="2027-01-01T00:00:00Z")

    assert run("lint", "-f", file, "--kubeconfig", str(server.kubeconfig)) == 1

    assert said in capsys.readouterr().out
    ((_, path, _),) = server.asked
    assert "dryRun=All" in path


def test_lint_checks_files_offline(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run("lint", "--offline", "-f", lint_file(tmp_path)) == 0
    assert capsys.readouterr().out.endswith(": ok, rules between fields not checked\n")
    assert run("lint", "--offline", "-f", lint_file(tmp_path, ttlSeconds=0)) == 1
    assert "spec.ttlSeconds: Invalid value: 0: should be" in capsys.readouterr().out


def test_lint_suggests_the_offline_mode_if_the_dry_run_is_forbidden(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server = serve({f"PATCH {RESERVATIONS.item('lock', 'shop')}": failed(403, "Forbidden", "no rights")})
    assert run("lint", "-f", lint_file(tmp_path), "--kubeconfig", str(server.kubeconfig)) == 1
    assert "no rights; --offline checks all but" in sentence(capsys)


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
    assert run("quote", "-f", lint_file(tmp_path), "--kubeconfig", str(server.kubeconfig)) == 0
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
    assert ("GET", f"{LEASES.collection()}?fieldSelector=metadata.name%3Dtidelock") in [
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
        ((404, "404 page not found"), "this cluster has no Tidelock: install it (kubectl apply"),
        (failed(500, "InternalError", "etcd is down"), "etcd is down"),
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
