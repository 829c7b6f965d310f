"""The entry points of `kubectl tidelock` and of its shell completion."""

import gc
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress

from tidelock.cli.failure import Failure
from tidelock.model.printable import printable

_COMPLETION = "_KUBECTL_TIDELOCK_COMPLETE"
_NO_FILES = ":4"  # kubectl's code for arguments that are no names of files


def main() -> None:
    """Run the command, and end the process with its status."""
    # A search for garbage among the modules would take a twentieth of a short command.
    gc.disable()
    from tidelock.cli.app import NAME, make_app  # noqa: PLC0415 -- after that

    try:
        _check_encoding(sys.argv[1:])
        make_app()(prog_name=NAME)
    except Failure as failure:
        sys.stderr.write(f"error: {printable(str(failure))}\n")
        sys.exit(failure.status)
    finally:
        gc.enable()


def _check_encoding(arguments: Sequence[str]) -> None:
    """Raise Failure for an argument with bytes that are not UTF-8, which no request can contain."""
    for number, argument in enumerate(arguments, start=1):
        if any("\ud800" <= character <= "\udfff" for character in argument):
            raise Failure(f"argument {number}, {argument!r}, is not UTF-8: have the terminal use UTF-8")


def complete() -> None:
    """Complete the command line for kubectl, which runs kubectl_complete-tidelock."""
    from tidelock.cli.app import PROGRAM, make_app  # noqa: PLC0415 -- as in main

    words = [PROGRAM, *sys.argv[1:]]
    os.environ |= {
        "COMP_WORDS": shlex.join(words),
        "COMP_CWORD": str(len(words) - 1),
        _COMPLETION: "complete_bash",
    }
    with suppress(SystemExit):
        make_app(completing=True)(prog_name=PROGRAM, complete_var=_COMPLETION)
    sys.stdout.write(f"{_NO_FILES}\n")
