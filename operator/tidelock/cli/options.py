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
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace. Default: the one of the context.",
        metavar="NAMESPACE",
        show_default=False,
    ),
]
Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Use all namespaces.")]
Context = Annotated[
    str,
    typer.Option(
        "--context",
        help="Context of the kubeconfig. Default: the current one.",
        metavar="CONTEXT",
        show_default=False,
    ),
]
Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", help="Kubeconfig file.", metavar="FILE", show_default=False)
]
Format = Annotated[Output | None, typer.Option("--output", "-o", help="Output format.", show_default=False)]
File = Annotated[
    str,
    typer.Option("--filename", "-f", help="YAML or JSON file. - reads standard input.", metavar="FILE"),
]
SchedulerConfig = Annotated[
    str,
    typer.Option(
        "--config",
        help="KubeSchedulerConfiguration file with which the operator runs.",
        metavar="FILE",
        show_default=False,
    ),
]
