"""A measurement of the first steps of a new user: python -m firststeps [--empty-caches].

It clones the committed state of this checkout into an empty folder. There it runs the demo and the tutorial
as far as the first reservation, and reads the web view. It prints when each step was reached. pip and the
control plane use this user's caches, or empty ones. The output names the state of the caches. A development
cluster that is already up is left alone.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.figures import columns
from devcluster.binaries import cache_folder, cache_key
from devcluster.build import MODULE, PACKAGES
from devcluster.loopback import HOST, free_ports
from devcluster.output import say
from documents import ROOT, Block, commands, page_blocks
from replayed import TUTORIAL

_LAST = "kubectl wait reservation/"  # beginning of the command after which the first reservation is active
_MARK = "=== "
# The web view sends one line of text per change. That of the reservation must arrive.
_LOOK = "from urllib.request import urlopen; next(each for each in urlopen('{url}') if b'web-0' in each)"
_SESSION = """\
set -eo pipefail
shopt -s expand_aliases
make venv
echo "{mark}the virtual environment is there"
make demo
echo "{mark}the demo has ended"
trap 'kill $operator || true; wait; make down' EXIT
{tutorial}
echo "{mark}a lock of one's own holds"
python -c "{look}"
echo "{mark}the web view shows it"
"""


class StepError(Exception):
    """A step failed, so that there is nothing to measure."""


@dataclass(frozen=True)
class Step:
    """A step that was reached, with its time in seconds since the clone began."""

    name: str
    at: float


def until_first_reservation(page: Path = TUTORIAL) -> tuple[list[Block], list[str]]:
    """Return the files and the commands of the tutorial, as far as the first reservation.

    Raises:
        ValueError: no command of the page waits for a reservation.

    """
    files: list[Block] = []
    typed: dict[int, str] = {}
    for block in page_blocks(page):
        files += [block] * bool(block.title)
        for command in commands(block) if block.language in {"sh", "console"} else ():
            typed[command.line] = command.typed  # once per line, even if it runs several programs
            if command.typed.startswith(_LAST):
                return files, list(typed.values())
    raise ValueError(f"{page} has no command that begins with {_LAST!r}")


def session(typed: Sequence[str], port: int) -> str:
    """Return a script for bash, in which the operator runs in the background and serves the web view."""
    instead = {
        "tidelock run": f"tidelock run --web-view --listen={HOST} --port={port} & operator=$!",
        # The command prints an alias for kubectl if none is installed.
        "TIDELOCK_PROVIDER=go make up": "TIDELOCK_PROVIDER=go make up | tee up.log\n"
        """eval "$(grep '^ *alias ' up.log)" """,
    }
    tutorial = "\n".join(instead.get(each, each) for each in typed)
    return _SESSION.format(
        mark=_MARK,
        tutorial=tutorial.replace("~/.local/state", "$XDG_STATE_HOME"),
        look=_LOOK.format(url=f"http://{HOST}:{port}/web/events"),
    )


def environment(folder: Path, *, empty_caches: bool) -> dict[str, str]:
    """Return the variables of the session. Its state is in the folder, and so are caches that start empty."""
    own = {"XDG_STATE_HOME": folder / "state"}
    if empty_caches:
        own |= {"XDG_CACHE_HOME": folder / "cache", "GOMODCACHE": folder / "cache" / "modules"}
    return {
        **{name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "KUBECONFIG"}},
        **{name: str(path) for name, path in own.items()},
    }


def steps(folder: Path, variables: Mapping[str, str]) -> Iterator[Step]:
    """Clone, run the session, and yield each step when it is reached.

    Raises:
        StepError: a command failed.

    """
    began = time.monotonic()
    clone = folder / "tidelock"
    subprocess.run(["git", "clone", "--quiet", "--no-local", ROOT, clone], check=True)
    yield Step("the clone is there", time.monotonic() - began)
    files, typed = until_first_reservation()
    for block in files:
        (clone / block.title).write_text(block.text)
    script = folder / "session.sh"
    script.write_text(session(typed, *free_ports(1)))
    with subprocess.Popen(
        ["bash", script],
        cwd=clone,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            if line.startswith(_MARK):
                yield Step(line.removeprefix(_MARK).strip(), time.monotonic() - began)
            else:
                say(line, end="")
    if process.returncode:
        raise StepError(f"a command failed with exit status {process.returncode}, see above")


def circumstances(*, empty_caches: bool) -> str:
    """Describe the conditions that decide the time: processors, load, and the state of the caches."""
    cached = (cache_folder("controlplane") / cache_key(MODULE, tuple(PACKAGES))).is_dir()
    built = "control plane built before" if cached and not empty_caches else "control plane not built yet"
    pip = "pip's cache empty" if empty_caches else "pip's cache as it was"
    return f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f} at first, {built}, {pip}"


def shown(reached: Sequence[Step]) -> str:
    """Format the steps as a table, with the seconds since the clone began and the seconds of each step."""
    befores = (0.0, *(step.at for step in reached))
    rows = [
        (step.name, f"{step.at:.1f} s", f"{step.at - before:.1f} s")
        for step, before in zip(reached, befores, strict=False)
    ]
    return columns([("", "since the start", "alone"), *rows])


def main(arguments: Sequence[str]) -> int:
    """Measure once. The exit status is 0 if all steps succeeded."""
    parser = argparse.ArgumentParser(prog="firststeps", description=__doc__)
    parser.add_argument(
        "--empty-caches", action="store_true", help="download and build everything: ten minutes or more"
    )
    options = parser.parse_args(arguments)
    machine = circumstances(empty_caches=options.empty_caches)
    with tempfile.TemporaryDirectory(prefix="tidelock-first-steps-") as name:
        folder = Path(name)
        try:
            reached = list(steps(folder, environment(folder, empty_caches=options.empty_caches)))
        except StepError as error:
            say(str(error))
            return 1
    print(f"\n{machine}, {os.getloadavg()[0]:.1f} at the end\n\n{shown(reached)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
