"""How long the first steps take: python -m firststeps [--empty-caches].

Clones what is committed of this checkout into an empty folder, and does there what a new user is told to: the
demo, the tutorial as far as the first lock, and a look at the web view. It prints when each was reached. pip
and the control plane come from this user's caches, unless they are to be empty; both is told. A development
cluster that is up already is left alone.
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

TUTORIAL = ROOT / "docs" / "tutorial.md"
_LAST = "kubectl wait reservation/"  # how the command begins after which the first lock holds
_MARK = "=== "
# The web view sends a line for each change; that of the lock must come.
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
    """What was reached, and when, in seconds since the clone began."""

    name: str
    at: float


def until_first_reservation(page: Path = TUTORIAL) -> tuple[list[Block], list[str]]:
    """Give the files and the commands of the tutorial, as far as the first lock.

    Raises:
        ValueError: the page waits for no lock.

    """
    files: list[Block] = []
    typed: dict[int, str] = {}
    for block in page_blocks(page):
        files += [block] * bool(block.title)
        for command in commands(block) if block.language in {"sh", "console"} else ():
            typed[command.line] = command.typed  # once, however many programs the line has
            if command.typed.startswith(_LAST):
                return files, list(typed.values())
    raise ValueError(f"{page} has no command that begins with {_LAST!r}")


def session(typed: Sequence[str], port: int) -> str:
    """Write a session of bash; in it the operator runs in the background, and serves the web view too."""
    instead = {
        "tidelock run": f"tidelock run --web-view --listen={HOST} --port={port} & operator=$!",
        # It prints an alias for kubectl where there is none.
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
    """Give the variables of the session: state in the folder, and caches too if they are to be empty."""
    own = {"XDG_STATE_HOME": folder / "state"}
    if empty_caches:
        own |= {"XDG_CACHE_HOME": folder / "cache", "GOMODCACHE": folder / "cache" / "modules"}
    return {
        **{name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "KUBECONFIG"}},
        **{name: str(path) for name, path in own.items()},
    }


def steps(folder: Path, variables: Mapping[str, str]) -> Iterator[Step]:
    """Clone and play; gives each step when it is reached.

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
    ) as played:
        for line in played.stdout or ():
            if line.startswith(_MARK):
                yield Step(line.removeprefix(_MARK).strip(), time.monotonic() - began)
            else:
                say(line, end="")
    if played.returncode:
        raise StepError(f"a command failed with exit status {played.returncode}, see above")


def circumstances(*, empty_caches: bool) -> str:
    """Tell what decides how long it takes: processors, the load beside it, and what need not be built."""
    cached = (cache_folder("controlplane") / cache_key(MODULE, tuple(PACKAGES))).is_dir()
    built = "control plane built before" if cached and not empty_caches else "control plane not built yet"
    pip = "pip's cache empty" if empty_caches else "pip's cache as it was"
    return f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f} at first, {built}, {pip}"


def shown(reached: Sequence[Step]) -> str:
    """Lay steps out: seconds since the clone began, and those that each took."""
    befores = (0.0, *(step.at for step in reached))
    rows = [
        (step.name, f"{step.at:.1f} s", f"{step.at - before:.1f} s")
        for step, before in zip(reached, befores, strict=False)
    ]
    return columns([("", "since the start", "alone"), *rows])


def main(arguments: Sequence[str]) -> int:
    """Measure once; 0 if all steps could be done."""
    parser = argparse.ArgumentParser(prog="firststeps", description=__doc__)
    parser.add_argument(
        "--empty-caches", action="store_true", help="download and build all anew: ten minutes or more"
    )
    options = parser.parse_args(arguments)
    told = circumstances(empty_caches=options.empty_caches)
    with tempfile.TemporaryDirectory(prefix="tidelock-first-steps-") as name:
        folder = Path(name)
        try:
            reached = list(steps(folder, environment(folder, empty_caches=options.empty_caches)))
        except StepError as error:
            say(str(error))
            return 1
    print(f"\n{told}, {os.getloadavg()[0]:.1f} at the end\n\n{shown(reached)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
