"""Faults of the program, each of which affects one step of one object."""

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
    """An isolation with a manual clock, and with records of its counts and events."""

    def __init__(self) -> None:
        self.time = 0.0
        self.counted: list[tuple[str, str]] = []
        self.events: list[tuple[ObjectReference, EventType, str, str, str]] = []
        super().__init__(
            lambda *labels: self.counted.append(labels),
            lambda *event: self.events.append(event),
            lambda: self.time,
        )

    def fail(self, meta: ObjectMeta = LOCK, step: str = "decision", text: str = "a bug") -> float:
        with self.attempt(step, RESERVATIONS, meta) as attempt:
            raise ValueError(text)
        return attempt.pause


def test_a_fault_is_counted_and_reported_in_an_event_of_the_object() -> None:
    bench = Bench()
    bench.fail()
    assert bench.counted == [("decision", "reservations")]
    [(about, type_, reason, _, note)] = bench.events
    assert (about.kind, about.namespace, about.name, about.uid) == ("Reservation", "shop", "lock", "u1")
    assert (type_, reason) == ("Warning", "InternalError")
    assert note == "The operator failed in the step decision, and tries again later: ValueError: a bug"


def test_pauses_grow_for_each_object_and_step_separately() -> None:
    bench = Bench()
    pauses = [bench.fail() for _ in range(12)]
    assert pauses[:4] == [SHORTEST, 2 * SHORTEST, 4 * SHORTEST, 8 * SHORTEST]
    assert pauses[-1] == LONGEST
    assert bench.fail(OTHER) == SHORTEST
    assert bench.fail(step="status") == SHORTEST


def test_an_object_without_faults_for_a_while_starts_with_the_shortest_pause() -> None:
    bench = Bench()
    for _ in range(5):
        bench.time += bench.fail()
    bench.time += 1000
    assert bench.fail() == SHORTEST


def test_one_traceback_is_logged_for_a_code_location_and_then_counts(
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


def test_two_failing_plugins_have_one_traceback_each(caplog: pytest.LogCaptureFixture) -> None:
    """All plugins' errors are re-raised in one line, so the second plugin's fault once had no traceback."""
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


async def test_endless_work_continues_after_a_fault_and_fatal_errors_end_it(
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


def test_a_cancellation_is_no_fault() -> None:
    bench = Bench()
    with pytest.raises(asyncio.CancelledError), bench.attempt("decision", RESERVATIONS, LOCK):
        raise asyncio.CancelledError
    assert not bench.counted


def test_a_process_that_must_end_does_so_even_if_a_call_never_returns() -> None:
    """A process that had lost its Lease once hung for 40 s and still reported readiness."""
    begun = time.monotonic()
    # This call never returns, and blocks all other threads.
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
