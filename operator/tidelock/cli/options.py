"""Options common to several commands, with kubectl's names."""

from enum import StrEnum
from typing import Annotated

import typer


class Output(StrEnum):
    """Output format of a command other than a table of ordinary width."""

    JSON = "json"
    YAML = "yaml"
    WIDE = "wide"


Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", help="Namespace; default: that of the context.", show_default=False),
]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
Context = Annotated[
    str,
    typer.Option("--context", help="Context of the kubeconfig; default: the current.", show_default=False),
]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="File to connect with.", metavar="FILE", show_default=False)
]
Format = Annotated[Output | None, typer.Option("--output", "-o", help="Other output.", show_default=False)]
File = Annotated[
    str,
    typer.Option("--filename", "-f", help="YAML or JSON file to read; -: standard input.", metavar="FILE"),
]
SchedulerConfig = Annotated[
    str,
    typer.Option(
        "--config",
        help="KubeSchedulerConfiguration of the operator, if it has one.",
        metavar="FILE",
        show_default=False,
    ),
]
