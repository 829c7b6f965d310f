"""Ctrl-C, which the system may deliver to any thread of the process, at any moment."""

import signal
import subprocess
import sys

import pytest

WAITS = """
import asyncio, signal, threading, time
from tidelock.cli.session import run

def interrupt(*pauses):
    for pause in pauses:
        time.sleep(pause)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    time.sleep(60)  # the thread goes on, as that of a changing line does

async def work():
    threading.Thread(target=interrupt, args=PAUSES, daemon=True).start()
    try:
        WORK
    except asyncio.CancelledError:
        print("cleaned up")
        raise

run(work())
"""


def run(work: str, *pauses: float, begin: str = "") -> subprocess.CompletedProcess[str]:
    program = begin + WAITS.replace("PAUSES", repr(pauses)).replace("WORK", work)
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


@pytest.mark.parametrize(
    ("work", "pauses"),
    [
        ("await asyncio.sleep(60)", (0.3,)),
        (
            "await asyncio.to_thread(time.sleep, 2)",
            (0.3, 0.3),
        ),  # the thread is awaited then
    ],
)
def test_ctrl_c_ends_a_command_whichever_thread_gets_the_signal(work: str, pauses: tuple[float, ...]) -> None:
    """Bug: `kubectl tidelock reserve` went on for up to a minute, until the next event."""
    done = run(work, *pauses)
    assert (done.stdout, done.stderr, done.returncode) == ("cleaned up\n", "", 128 + signal.SIGINT)


def test_a_second_ctrl_c_ends_work_that_does_not_turn_the_loop() -> None:
    done = run("[sum(range(1_000)) for _ in range(10_000_000)]", 0.3, 0.3)
    assert (done.stderr, done.returncode) == ("", 128 + signal.SIGINT)


def test_a_command_in_the_background_of_a_script_ignores_ctrl_c() -> None:
    """A shell lets such a command ignore the signal."""
    ignore = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    done = run("await asyncio.sleep(0.5)", 0.1, begin=ignore)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
