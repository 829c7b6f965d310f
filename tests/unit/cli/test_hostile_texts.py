"""Texts of other clients can neither control the terminal nor forge lines, in the output of all commands."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from builders import Json, pod_json, reservation_json
from tidelock.cli.tables import Table, lines_of
from tidelock.kube.client import NODES, PODS, RESERVATIONQUOTES, RESERVATIONS, WATERLEVELS
from tidelock.model.printable import printable, printable_json
from unit.cli.commands import run
from unit.cli.quotes import LATER, quote_json
from unit.cli.scenes import LOCKS, active_json, pending_json, prepared_json
from unit.cli.scenes import NODES as NODE_OBJECTS
from unit.cli.scenes import PODS as POD_OBJECTS
from unit.cli.server import Answers, FixedServer, failed, listed, serving

C0 = "".join(map(chr, (*range(0x20), 0x7F)))
C1 = "".join(map(chr, range(0x80, 0xA0)))
BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
NO_WIDTH = "\u00ad\u200b\u200c\u200d\u2060\ufeff\U000e0041"
BREAKS = "\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
FORGED = "\n2027-01-15T08:00:00.123Z INFO forged\x1b[2J\x1b]8;;https://example.com\x07[bold red]x[/nothing]"
HOSTILE = FORGED + C0 + C1 + BIDI + NO_WIDTH + BREAKS
SURROGATES = "\ud800\udfff"

hostile = st.text(st.sampled_from(HOSTILE + SURROGATES + "ab[]=\"'\\ é漢😀"), max_size=40)

# Free texts that clients choose. Fields with a format, such as times and amounts, stay unchanged.
_TAINTED = frozenset({"message", "reason", "owner", "token", "labels", "annotations", "nodeName", "name"})


def tainted(plain: Any, field: str = "") -> Any:
    """Append the hostile text to each text of such a field, at any depth."""
    if isinstance(plain, dict):
        return {
            key: tainted(value, field if field in ("labels", "annotations") else key)
            for key, value in plain.items()
        }
    if isinstance(plain, list):
        return [tainted(value, field) for value in plain]
    return plain + HOSTILE if isinstance(plain, str) and field in _TAINTED else plain


def only_printable(told: str) -> bool:
    return all(line.isprintable() for line in told.split("\n"))


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[Answers], FixedServer]]:
    with ExitStack() as stack:
        yield lambda answers: stack.enter_context(serving(answers, tmp_path))


def cluster(change: Callable[[Any], Any]) -> Answers:
    """Return answers to all requests of the commands, with changed texts."""
    collections: dict[str, tuple[Json, ...]] = {
        NODES.collection(): NODE_OBJECTS,
        PODS.collection(): POD_OBJECTS,
        RESERVATIONS.collection(): LOCKS,
        RESERVATIONS.collection("shop"): LOCKS,
        WATERLEVELS.collection(): (),
    }
    answers: Answers = {f"GET {path}": listed(*map(change, objects)) for path, objects in collections.items()}
    lock = RESERVATIONS.collection("shop")
    hold = change(prepared_json("hold", "uid-hold.1", committed=True))
    hold["metadata"]["name"] = "hold"
    asked = quote_json(deepcopy(LATER))
    for each in asked["status"]["conditions"]:
        each["message"] = change({"message": each["message"]})["message"]
    return answers | {
        f"POST {lock}": (201, change(reservation_json("web-0"))),
        f"PATCH {lock}/lock": failed(422, "Invalid", change({"message": "spec is invalid"})["message"]),
        f"GET {lock}/hold": (200, hold),
        f"PATCH {lock}/hold": (200, hold),
        f"POST {RESERVATIONQUOTES.collection('shop')}": (201, asked),
        f"GET {RESERVATIONQUOTES.collection('shop')}": listed(asked),
        f"GET {RESERVATIONQUOTES.item('quote-x7', 'shop')}": (200, asked),
        f"DELETE {RESERVATIONQUOTES.item('quote-x7', 'shop')}": (200, {}),
        "GET /version": (200, {}),
    }


def files(folder: Path, change: Callable[[Any], Any]) -> str:
    file = folder / "file.yaml"
    lock = {"apiVersion": RESERVATIONS.api_version, "kind": "Reservation"} | active_json("lock")
    pod = {"apiVersion": "v1", "kind": "Pod"} | pod_json("web-7", labels={"app": "web"})
    file.write_text(yaml.safe_dump_all([change(lock), change(pod)]))
    return str(file)


COMMANDS = [
    ("status",),
    ("status", "-A", "-o", "wide"),
    ("status", "-A", "-o", "json"),
    ("status", "-A", "-o", "yaml"),
    ("why", "pod/web-0"),
    ("why", "pod/web-0", "-o", "wide"),
    ("why", "pod/web-0", "-o", "json"),
    ("timeline", "--since", "99999d", "--ahead", "99999d"),
    ("timeline", "--since", "99999d", "--ahead", "99999d", "-o", "json"),
    ("simulate", "-f", "FILE"),
    ("simulate", "-f", "FILE", "-o", "yaml"),
    ("lint", "-f", "FILE"),
    ("lint", "--offline", "-f", "FILE"),
    ("reserve", "web-0", "-r", "cpu=1", "--no-wait"),
    ("reserve", "web-0", "-r", "cpu=1", "--no-wait", "-o", "json"),
    ("commit", "hold"),
    ("commit", "hold", "-o", "yaml"),
    ("quote", "-r", "cpu=2"),
    ("quote", "-r", "cpu=2", "-o", "json"),
    ("check",),
    ("check", "-o", "json"),
    ("commit", HOSTILE.replace("\x00", "")),
    ("why", SURROGATES),
]


@pytest.mark.parametrize("command", COMMANDS, ids=[ascii(" ".join(words))[:60] for words in COMMANDS])
def test_no_command_prints_control_characters_of_objects(
    serve: Callable[[Answers], FixedServer],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: tuple[str, ...],
) -> None:
    """A message with line breaks and ESC once forged lines of a table and moved the cursor."""
    server = serve(cluster(tainted))
    file = files(tmp_path, tainted)
    words = [file if word == "FILE" else word for word in command]
    run(*words, "--kubeconfig", str(server.kubeconfig))
    told = capsys.readouterr()
    assert told.out or told.err
    assert only_printable(told.out + told.err)
    assert not re.search(r"^2027.*forged", told.out + told.err, re.MULTILINE)
    if "json" in command and told.out:
        json.loads(told.out)
    if "yaml" in command and told.out:
        yaml.safe_load(told.out)


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_json_and_yaml_output_keeps_texts_unchanged(
    serve: Callable[[Answers], FixedServer], capsys: pytest.CaptureFixture[str], form: str
) -> None:
    lock = tainted(pending_json("web-1"))
    server = serve(
        {f"GET {RESERVATIONS.collection('shop')}": listed(lock), f"GET {WATERLEVELS.collection()}": listed()}
    )
    assert run("status", "-o", form, "--kubeconfig", str(server.kubeconfig)) == 0
    out = capsys.readouterr().out
    read = json.loads(out) if form == "json" else yaml.safe_load(out)
    (found,) = read["reservations"]
    assert found["status"]["conditions"] == lock["status"]["conditions"]


@given(hostile)
def test_a_printable_text_is_one_line_and_can_be_written(text: str) -> None:
    told = printable(text)
    assert told.isprintable()
    told.encode()
    assert printable(told) == told
    if text.isprintable():
        assert told == text


@given(st.recursive(hostile, lambda inner: st.lists(inner) | st.dictionaries(hostile, inner), max_leaves=8))
def test_printable_json_is_the_same_value(value: object) -> None:
    told = printable_json(json.dumps(value, ensure_ascii=False))
    assert only_printable(told)
    assert json.loads(told) == value


@given(hostile, hostile)
def test_a_table_has_one_line_for_each_row(first: str, second: str) -> None:
    table = Table(["NAME", "TEXT"], [[first, second], [second, first]])
    told = lines_of(table, f"said: {first}")
    assert only_printable(told)
    assert told.count("\n") == 4


@given(hostile)
def test_a_terminal_gets_only_escape_sequences_for_colours(text: str) -> None:
    parts = (Table(["NAME", "PHASE"], [[text, "Active"], text]), text)
    told = lines_of(*parts, width=500, coloured=True)
    assert "\x1b[32mActive\x1b[0m" in told
    assert only_printable(re.sub(r"\x1b\[[0-9;]*m", "", told))
