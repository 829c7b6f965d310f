"""The command `kubectl tidelock`, and its shell completion."""

import gc
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, cast

try:
    import typer
    from typer.core import TyperGroup
except ModuleNotFoundError:
    sys.exit("error: only the client for managers is installed: pip install 'tidelock[cli]'")

from tidelock import __version__
from tidelock.cli.failure import Failure
from tidelock.model.printable import printable

_PROGRAM = "kubectl-tidelock"
_NAME = "kubectl tidelock"
_COMPLETION = "_KUBECTL_TIDELOCK_COMPLETE"
_NO_FILES = ":4"  # kubectl's code for arguments that are no names of files

COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "reserve": "Create a reservation and wait until it is active.",
        "commit": "Commit a reservation of reserve --commit-within.",
        "approve": "Approve the plan of moves of a reservation.",
        "quote": "Ask whether a reservation would be granted now.",
        "status": "Show reservations, reserved amounts and water levels.",
        "top": "Show nodes and reservations live.",
        "why": "Show why a pod or a reservation is on its node, or on none.",
        "simulate": "Show the effects that a file would have.",
        "timeline": "Show the reservations of nodes over time.",
        "lint": "Check a file without applying it.",
        "check": "Check CRDs, rights, Lease, admission and staleness.",
    }
)
"""Each command with a summary. Its module has the same name, a function `command`, and its EXAMPLES."""


class _Commands(TyperGroup):
    """Imports only the module of the command that runs: those of the others take most of a second."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = cast("dict[str, Any]", dict.fromkeys(COMMANDS))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None if there is none of that name."""
        del ctx
        if self.commands.get(cmd_name) is None and cmd_name in COMMANDS:
            self.commands[cmd_name] = _make_command(cmd_name)
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands without their modules."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def _make_command(name: str) -> Any:
    from tidelock.running import collect_seldom  # noqa: PLC0415 -- the help needs no asyncio

    # Otherwise searches would take a sixth of a short command: those for garbage among modules, also when the
    # process ends, and those for plugins of pydantic.
    collect_seldom()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    module = import_module(f"tidelock.cli.{name}")
    gc.freeze()
    examples = "".join(f"  {line}\n" for line in module.EXAMPLES.strip().splitlines())
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_SETTINGS)
    # The backspace keeps the lines of a paragraph as they are.
    alone.command(name, epilog=f"\b\nExamples:\n{examples}")(module.command)
    return typer.main.get_command(alone)


_SETTINGS = {"help_option_names": ["-h", "--help"]}


def make_app(*, completing: bool = False) -> typer.Typer:
    """Return the command. `completing` is only for the shell's completion."""
    app = typer.Typer(
        name=_PROGRAM,
        cls=_Commands,
        no_args_is_help=True,
        add_completion=completing,  # adds options that kubectl's own completion makes needless
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings=_SETTINGS,
    )
    app.callback()(_root)
    return app


def _print_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"{_NAME} {__version__}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Reserve node capacity, explain the placement of pods, simulate changes, and check Tidelock."""


def main() -> None:
    """Run the command, and end the process with its status."""
    try:
        _check_encoding(sys.argv[1:])
        make_app()(prog_name=_NAME)
    except Failure as failure:
        sys.stderr.write(f"error: {printable(str(failure))}\n")
        sys.exit(failure.status)


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
