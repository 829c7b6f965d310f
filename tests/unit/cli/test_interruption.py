"""Ctrl-C, which the system may deliver to any thread of the process."""

import signal
import subprocess
import sys

WAITS = """
import asyncio, signal, sys, threading, time
from tidelock.cli.session import run

interrupted = threading.Event()

def draw():
    time.sleep(float(sys.argv[1]))
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    interrupted.wait(60)  # the thread goes on, as that of a changing line does

async def work():
    threading.Thread(target=draw, daemon=True).start()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        print("cleaned up")
        raise

run(work())
"""


def test_ctrl_c_ends_a_command_whichever_thread_gets_the_signal() -> None:
    """Bug: `kubectl tidelock reserve` went on for up to a minute, until the next event."""
    done = subprocess.run(
        [sys.executable, "-c", WAITS, "0.3"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("cleaned up\n", "", 128 + signal.SIGINT)
