"""Runs benchmarks one after another, and stores their records: python -m bench [--traces DIR] [NAME ...].

Each runs at its default sizes, on a machine that should have no other work. The records are stored in
docs/figures, and `hack/update-figures` then quotes them. Those that need traces are left out without them.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.record import BENCHES, FOLDER, ROOT
from devcluster.output import say

_WITH_TRACES = ("dispatch", "balance")


def command(bench: str, traces: Path | None, folder: Path) -> list[str]:
    """Return the command line of a benchmark."""
    options = [f"--traces={traces}"] if bench in _WITH_TRACES else []
    return [sys.executable, "-m", f"bench.{bench}", *options, f"--json={folder / bench}.json"]


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks, and return the exit status, which is 1 if one of them reported a fault."""
    parser = argparse.ArgumentParser(prog="bench", description="Run benchmarks and store their records.")
    # Some versions of Python 3.11 and 3.12 also look for the empty list of no names among the choices.
    parser.add_argument("names", nargs="*", choices=[[], *BENCHES], metavar="NAME", help="only these")
    parser.add_argument("--traces", type=Path, metavar="DIR", help=f"folder for {' and '.join(_WITH_TRACES)}")
    options = parser.parse_args(arguments)
    failed = []
    for bench in options.names or BENCHES:
        if bench in _WITH_TRACES and options.traces is None:
            say(f"bench.{bench} is left out, as there is no --traces.")
            continue
        say(f"bench.{bench}")
        if subprocess.run(command(bench, options.traces, FOLDER), cwd=ROOT, check=False).returncode:
            failed.append(bench)
    say(f"These failed: {', '.join(failed)}" if failed else "Every benchmark was without a fault.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
