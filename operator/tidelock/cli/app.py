"""The command `kubectl tidelock`, which imports only the modules of the subcommand that runs."""

import gc
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Annotated, Any, cast

try:
    import typer
    from typer.core import TyperGroup
except ModuleNotFoundError:
    sys.exit("error: only the client for managers is installed: in a checkout, pip install '.[cli]'")

from tidelock import __version__

PROGRAM = "kubectl-tidelock"
NAME = "kubectl tidelock"

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

    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # the search for them is slow
    module = import_module(f"tidelock.cli.{name}")
    gc.freeze()  # no search ever looks at the modules, not even at the end of the process
    collect_seldom()
    gc.enable()
    examples = "".join(f"  {line}\n" for line in module.EXAMPLES.strip().splitlines())
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=_SETTINGS)
    # The backspace keeps the lines of a paragraph as they are.
    alone.command(name, epilog=f"\b\nExamples:\n{examples}")(module.command)
    return typer.main.get_command(alone)


_SETTINGS = {"help_option_names": ["-h", "--help"]}


def make_app(*, completing: bool = False) -> typer.Typer:
    """Return the command. `completing` is only for the shell's completion."""
    app = typer.Typer(
        name=PROGRAM,
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
        sys.stdout.write(f"{NAME} {__version__}\n")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Reserve node capacity, explain the placement of pods, simulate changes, and check Tidelock."""
