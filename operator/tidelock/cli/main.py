"""The command `kubectl tidelock`, and its shell completion."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import typer

from tidelock.cli import (
    check,
    commit,
    lint,
    quote,
    reserve,
    simulate,
    status,
    timeline,
    top,
    why,
)
from tidelock.cli.session import Failure
from tidelock.model.printable import printable

_PROGRAM = "kubectl-tidelock"
_NAME = "kubectl tidelock"
_COMPLETION = "_KUBECTL_TIDELOCK_COMPLETE"
_NO_FILES = ":4"  # kubectl's code for arguments that are no names of files

_COMMANDS: dict[str, Callable[..., None]] = {
    "reserve": reserve.command,
    "commit": commit.command,
    "quote": quote.command,
    "status": status.command,
    "top": top.command,
    "why": why.command,
    "simulate": simulate.command,
    "timeline": timeline.command,
    "lint": lint.command,
    "check": check.command,
}


def make_app(*, completing: bool = False) -> typer.Typer:
    """Return the command. `completing` is only for the shell's completion."""
    app = typer.Typer(
        name=_PROGRAM,
        help="Reserve node capacity, explain the placement of pods, simulate changes, and check Tidelock.",
        no_args_is_help=True,
        add_completion=completing,  # adds options that kubectl's own completion makes needless
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, command in _COMMANDS.items():
        app.command(name)(command)
    return app


def main() -> None:
    """Run the command, and end the process with its status."""
    try:
        _check_encoding(sys.argv[1:])
        make_app()(prog_name=_NAME)
    except Failure as failure:
        sys.stderr.write(f"error: {printable(str(failure))}\n")
        sys.exit(1)


def _check_encoding(arguments: Sequence[str]) -> None:
    """Raise Failure for an argument with bytes that are not UTF-8, which no request can contain."""
    for number, argument in enumerate(arguments, start=1):
        if any("\ud800" <= character <= "\udfff" for character in argument):
            raise Failure(f"argument {number}, {argument!r}, is not UTF-8: have the terminal use UTF-8")


def complete() -> None:
    """Complete the command line for kubectl, which runs kubectl_complete-tidelock."""
    words = [_PROGRAM, *sys.argv[1:]]
    os.environ |= {
        "COMP_WORDS": shlex.join(words),
        "COMP_CWORD": str(len(words) - 1),
        _COMPLETION: "complete_bash",
    }
    with suppress(SystemExit):
        make_app(completing=True)(prog_name=_PROGRAM, complete_var=_COMPLETION)
    sys.stdout.write(f"{_NO_FILES}\n")
