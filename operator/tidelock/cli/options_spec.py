"""The requests of a reservation, from options or a file, for `reserve` and `quote`."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from tidelock.cli.documents import Document
from tidelock.cli.failure import Failure
from tidelock.cli.lint import problems_of

Requests = Annotated[
    str,
    typer.Option("--requests", "-r", help="Amount of each resource to reserve.", metavar="cpu=2,memory=4Gi"),
]
Node = Annotated[
    str,
    typer.Option("--node", help="Node of the reservation. Default: any.", metavar="NODE", show_default=False),
]
Selector = Annotated[
    str, typer.Option("--node-selector", help="Labels that the node must have.", metavar="KEY=VALUE,...")
]
Priority = Annotated[
    int, typer.Option("--priority", help="Priority. Pods of higher priority can preempt the reservation.")
]
Instead = Annotated[
    str,
    typer.Option(
        "--filename",
        "-f",
        help="YAML or JSON file with the objects. - reads standard input.",
        metavar="FILE",
    ),
]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def asked(requests: str, node: str, selector: str, priority: int) -> dict[str, Any]:
    """Return the fields of a spec for the requested amounts and nodes, or raise Failure."""
    fields = {
        "resources": pairs("--requests", requests),
        "nodeName": node,
        "nodeSelector": pairs("--node-selector", selector) if selector else {},
        "priority": priority,
    }
    return {field: value for field, value in fields.items() if value}


def refuse_unsound(documents: Sequence[Document], *kinds: str) -> None:
    """Raise Failure unless all are valid objects of these kinds."""
    problems = [f"{each.place}: {problem}" for each in documents for problem in problems_of(each)]
    problems += [
        f"{each.place}: should be a {' or a '.join(kinds)}"
        for each in documents
        if not problems and each.body["kind"] not in kinds
    ]
    if problems:
        raise Failure("; ".join(problems))


def pairs(option: str, text: str) -> dict[str, str]:
    """Parse `a=b,c=d`, or raise Failure."""
    items = [item.partition("=") for item in text.split(",")] if text else []
    if not items or not all(key and sign and value for key, sign, value in items):
        raise Failure(f"{option}: {text!r}: should be name=value,name=value, such as cpu=2,memory=4Gi")
    return {key.strip(): value.strip() for key, _, value in items}


def seconds(option: str, text: str) -> int:
    """Parse a duration such as `90s`, `10m` or `1h30m` to seconds, or raise Failure."""
    parts = re.findall(r"(\d+)([smhd])", text)
    if not parts or "".join(count + unit for count, unit in parts) != text:
        raise Failure(f"{option}: {text!r}: should be a duration such as 90s, 10m, 1h30m or 1d")
    return sum(int(count) * _UNITS[unit] for count, unit in parts)
