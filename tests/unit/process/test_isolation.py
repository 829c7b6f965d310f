"""Faults of the program, each of which costs one object one step."""

import asyncio
import logging
import subprocess
import sys
import time

import pytest

from tidelock.isolation import LONGEST, SHORTEST, Isolation
from tidelock.kube.client import PODS, RESERVATIONS
from tidelock.kube.events import EventType, ObjectReference
from tidelock.model.meta import ObjectMeta

LOCK = ObjectMeta("lock", "shop", "u1")
OTHER = ObjectMeta("other", "shop", "u2")


class Bench(Isolation):
    """An isolation whose clock is set by hand, and what it counted and told."""

    def __init__(self) -> None:
        self.time = 0.0
        self.counted: list[tuple[str, str]] = []
        self.told: list[tuple[ObjectReference, EventType, str, str, str]] = []
        super().__init__(
            lambda *labels: self.counted.append(labels),
            lambda *event: self.told.append(event),
            lambda: self.time,
        )

    def fail(self, meta: ObjectMeta = LOCK, step: str = "decision", text: str = "a bug") -> float:
        with self.attempt(step, RESERVATIONS, meta) as attempt:
            raise ValueError(text)
        return attempt.pause


def test_a_fault_is_counted_and_told_in_an_event_of_the_object() -> None:
    bench = Bench()
    bench.fail()
    assert bench.counted == [("decision", "reservations")]
    [(about, type_, reason, _, note)] = bench.told
    assert (about.kind, about.namespace, about.name, about.uid) == ("Reservation", "shop", "lock", "u1")
    assert (type_, reason) == ("Warning", "InternalError")
    assert note == "The operator failed in the step decision, and tries again later: ValueError: a bug"


def test_an_object_is_left_alone_for_longer_and_longer_and_others_are_not() -> None:
    bench = Bench()
    pauses = [bench.fail() for _ in range(12)]
    assert pauses[:4] == [SHORTEST, 2 * SHORTEST, 4 * SHORTEST, 8 * SHORTEST]
    assert pauses[-1] == LONGEST
    assert bench.fail(OTHER) == SHORTEST
    assert bench.fail(step="status") == SHORTEST


def test_an_object_that_was_well_for_a_while_begins_anew() -> None:
    bench = Bench()
    for _ in range(5):
        bench.time += bench.fail()
    bench.time += 1000
    assert bench.fail() == SHORTEST


def test_one_traceback_for_a_place_in_the_code_and_then_lines_with_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench()
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            bench.fail()
        bench.fail(OTHER, text="the same line of code")
    records = caplog.records
    assert [record.exc_info is not None for record in records] == [True, False, False, False]
    assert [vars(record)["faults"] for record in records] == [1, 2, 3, 4]
    assert [vars(record)["tries"] for record in records] == [1, 2, 3, 1]
    assert vars(records[1])["error"] == "ValueError: a bug"


def test_two_plugins_that_fail_have_a_traceback_each(caplog: pytest.LogCaptureFixture) -> None:
    """Errors of all plugins are raised anew in one line, so the second one's fault had no traceback."""
    bench = Bench()

    def one() -> None:
        raise LookupError("a bug")

    def other() -> None:
        raise LookupError("another bug")

    for plugin in (one, other, one, other):
        with bench.attempt("decision", RESERVATIONS, LOCK):
            try:
                plugin()
            except LookupError as error:
                raise ValueError("running a plugin") from error
    assert [record.exc_info is not None for record in caplog.records] == [True, True, False, False]


def test_memory_is_bounded() -> None:
    bench = Bench()
    for number in range(5000):
        bench.failed("decision", PODS, ObjectMeta(f"pod-{number}"), ValueError())
    assert len(bench._failing) <= 4096


async def test_endless_work_goes_on_after_a_fault_and_other_errors_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, begun = Bench(), 0
    monkeypatch.setattr("tidelock.isolation.SHORTEST", 0.001)

    async def work() -> None:
        nonlocal begun
        begun += 1
        if begun == 4:
            raise OSError("the address is taken")
        raise ValueError("a bug")

    async with asyncio.timeout(60):
        with pytest.raises(OSError, match="taken"):
            await bench.supervise("quotes", work, fatal=(OSError,))
    assert bench.counted == [("quotes", "")] * 3


def test_what_ends_a_task_is_no_fault() -> None:
    bench = Bench()
    with pytest.raises(asyncio.CancelledError), bench.attempt("decision", RESERVATIONS, LOCK):
        raise asyncio.CancelledError
    assert not bench.counted


def test_a_process_that_must_end_ends_whatever_it_does() -> None:
    """One that had lost its Lease hung for 40 s, ready."""
    begun = time.monotonic()
    # A call that never returns, and lets no other thread run Python.
    script = "import re; re.match('(a+)+$', 'a' * 64 + 'b')"
    ended = subprocess.run(
        [sys.executable, "-c", f"from tidelock.running import end_within; end_within(0.2); {script}"],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1
    assert b"most recent call first" in ended.stderr
    assert time.monotonic() - begun < 30
