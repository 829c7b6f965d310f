"""Evidence of a failed test with servers: the ends of their logs, and how busy the machine was."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from devcluster import LocalCluster

_LINES = 40
_PROGRAM = "kube-apiserver"  # of a cluster only this log is shown. The paths of the others are beside it


def sections(funcargs: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return titles and texts about the servers of a test, for its report."""
    found = [(f"log {path}", _end(path)) for path in dict.fromkeys(_logs(funcargs)) if path.is_file()]
    if not found:
        return []
    load = " ".join(f"{each:.1f}" for each in os.getloadavg())
    return [*found, ("load of the last 1, 5 and 15 minutes", f"{load} on {os.cpu_count()} processors")]


def _logs(funcargs: Mapping[str, object]) -> Iterator[Path]:
    """Yield the logs of operators and clusters in the values of fixtures, and those in the test's folder."""
    for value in funcargs.values():
        log = getattr(value, "_log", None)  # of an OperatorProcess, which is no part of most tests
        if isinstance(log, Path):
            yield log
        if isinstance(value, LocalCluster):
            yield value.components[_PROGRAM].log
    folder = funcargs.get("tmp_path")
    if isinstance(folder, Path):
        yield from sorted(folder.rglob("*.log"))


def _end(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-_LINES:])
