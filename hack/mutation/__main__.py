"""Plants random faults and lists those that no test finds: hack/mutate [N] [--package ledger] [--seed S].

One fault at a time is planted in a copy of operator/tidelock/scheduler or ledger. The tests of the pure core
that run the faulty line are run until one fails: first those of the same package, then all others. A run
with coverage finds these tests once, and is kept in build/mutation until the code changes.

The exit status is 1 if a fault survives that is not in hack/mutation/equivalent.txt.
"""

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import coverage

from mutation.operators import Mutation, changed_lines, mutations

_ROOT = Path(__file__).parents[2]
_OPERATOR = _ROOT / "operator" / "tidelock"
_KEPT = _ROOT / "build" / "mutation"
# Changes without an effect that a test could see, one line each: module, kind of fault, line of code.
_EQUIVALENT = Path(__file__).parent / "equivalent.txt"
_SUITES = ("ledger", "scheduler", "plugins", "web", "process", "simulation", "cli", "binders", "load")
_SUITES_OF_ALL = (
    *(f"tests/unit/{each}" for each in _SUITES),
    "tests/contract",
    "tests/property",
    "tests/model",
    "tests/world",
)
# A fault may make a loop endless: a test that takes longer, in seconds, has failed.
_LONGEST_TEST = 120
_ALL = {"TIDELOCK_ALL": "1"}  # all examples of each property, and not the sample of `make test`


class Fault(NamedTuple):
    """A fault and its module, relative to operator/tidelock."""

    module: str
    mutation: Mutation

    @property
    def place(self) -> str:
        """The module and the line."""
        return f"{self.module}:{self.mutation.line}"


Touched = dict[tuple[str, int], frozenset[str]]
"""The test files that run each line, by module and line."""


def draw(package: str, count: int, seed: int) -> list[Fault]:
    """Draw faults at random, the same for the same seed and code."""
    found = [
        Fault(str(path.relative_to(_OPERATOR)), mutation)
        for part in ((package,) if package else ("ledger", "scheduler"))
        for path in sorted((_OPERATOR / part).rglob("*.py"))
        for mutation in mutations(path.read_bytes())
    ]
    return random.Random(seed).sample(found, min(count, len(found)))  # noqa: S311 -- no secret


def find_tests() -> Touched:
    """Run the tests of the pure core with coverage, or read the last run's results for the same code."""
    digest = hashlib.sha256()
    for folder in ("operator/tidelock", "tests"):
        for path in sorted((_ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    data = _KEPT / digest.hexdigest()[:16]
    if not data.exists():
        _KEPT.mkdir(parents=True, exist_ok=True)
        settings = _KEPT / "settings.toml"
        settings.write_text(f'[tool.coverage.run]\nsource = ["{_OPERATOR}"]\ndata_file = "{data}.part"\n')
        subprocess.run(
            [
                *(sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", "-m", "pytest"),
                *("-q", "-p", "no:cacheprovider", "-p", "mutation.contexts", *_SUITES_OF_ALL),
            ],
            cwd=_ROOT,
            env=os.environ | _ALL,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        Path(f"{data}.part").rename(data)
    measured = coverage.CoverageData(str(data))
    measured.read()
    files: Touched = {}
    for measured_file in measured.measured_files():
        module = str(Path(measured_file).relative_to(_OPERATOR))
        tests_of = {
            line: set(contexts) for line, contexts in measured.contexts_by_lineno(measured_file).items()
        }
        of_module = set[str]().union(*tests_of.values())
        for line, tests in tests_of.items():
            # A line without a test is run by the import of its module, such as a constant.
            files[module, line] = frozenset((tests - {""}) or (of_module - {""}))
    return files


def survives(fault: Fault, tests: Sequence[str], jobs: int) -> bool:
    """Return whether all tests pass with a fault. The nearest tests run first."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "operator"
        shutil.copytree(_ROOT / "operator", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        path = copy / "tidelock" / fault.module
        path.write_bytes(fault.mutation.apply(path.read_bytes()))
        package = f"tests/unit/{Path(fault.module).parent.as_posix()}/"
        near = [each for each in tests if each.startswith(package)]
        far = [each for each in tests if each not in near]
        return all(_pass(copy, some, jobs) for some in (near, far) if some)


def _pass(operator: Path, tests: Sequence[str], jobs: int) -> bool:
    found_in = f"pythonpath={operator} hack tests docs/examples/manager"
    command = [
        *(sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-o", found_in),
        *(("-n", str(jobs)) if jobs > 1 and len(tests) > jobs else ()),
        *(f"--timeout={_LONGEST_TEST}", *tests),
    ]
    # Modules are found in the copy, also by the processes that tests start.
    environment = (
        os.environ | _ALL | {"PYTHONPATH": f"{operator}:{_ROOT / 'hack'}", "PYTHONDONTWRITEBYTECODE": "1"}
    )
    process = subprocess.run(command, cwd=_ROOT, env=environment, check=False, capture_output=True, text=True)
    return process.returncode == 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="hack/mutate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("count", type=int, nargs="?", default=20, metavar="N")
    parser.add_argument("--package", choices=("ledger", "scheduler"), default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Plant faults one by one. Return 1 if one survives that is not known to be equivalent."""
    options = parse(arguments)
    equivalent = set(_EQUIVALENT.read_text().splitlines())
    touched = find_tests()
    survivors, without_tests, known = [], 0, 0
    faults = draw(options.package, options.count, options.seed)
    for number, fault in enumerate(faults, 1):
        begin = time.monotonic()
        source = (_OPERATOR / fault.module).read_bytes()
        tests = sorted(touched.get((fault.module, fault.mutation.line), ()))
        survived = not tests or survives(fault, tests, options.jobs)
        before = next(changed_lines(source, fault.mutation), "").removeprefix("- ")
        is_known = survived and f"{fault.module}: {fault.mutation.what}: {before}" in equivalent
        verdict = "equivalent" if is_known else "SURVIVED" if survived else "killed"
        seconds = time.monotonic() - begin
        print(f"{number:4} {verdict:10} {fault.place} {fault.mutation.what} ({seconds:.0f} s)", flush=True)
        if survived:
            print("\n".join(f"       {line}" for line in changed_lines(source, fault.mutation)), flush=True)
        without_tests += not tests
        known += is_known
        if survived and not is_known:
            survivors.append(fault)
    killed = len(faults) - len(survivors) - known
    print(f"{len(faults)} faults, seed {options.seed}: {killed} killed, {known} equivalent,", end=" ")
    print(f"{len(survivors)} survived, {without_tests} of them in lines that no test runs")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
