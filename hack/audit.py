"""An audit of the lock files of Python dependencies: python -m audit LOCKFILE...

Every requirement must be pinned and have hashes, so that only the locked packages can be installed. The
oldest Python of pyproject.toml must be able to install it. If the data of pip-audit can be reached, no
requirement may have a known vulnerability. The output says whether this was checked. The exit status is 0
without findings.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"
# Vulnerabilities that do not concern Tidelock: the reason by id.
ACCEPTED: Mapping[str, str] = MappingProxyType({})

_TIMEOUT = 600.0  # seconds for one lock file
_FLAGS = ("--require-hashes", "--disable-pip", "--format=json", "--progress-spinner=off", "--timeout=10")


class _Vulnerability(msgspec.Struct):
    id: str
    fix_versions: list[str] = []


class _Dependency(msgspec.Struct):
    name: str
    version: str = ""
    vulns: list[_Vulnerability] = []
    skip_reason: str = ""


class _Report(msgspec.Struct):
    dependencies: list[_Dependency]


class Findings(NamedTuple):
    """The result for a lock file: the number of packages with data, and a text per vulnerability."""

    known: int
    faults: list[str]


def requirements(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each requirement of a lock file with its hashes."""
    for line in text.replace("\\\n", " ").splitlines():
        requirement, *hashes = line.partition(" #")[0].split("--hash=")
        if requirement.strip() and not requirement.startswith("#"):
            yield requirement.strip(), [each.strip() for each in hashes]


def unlocked(text: str) -> Iterator[str]:
    """Yield a text for each requirement that would allow another package than the locked one."""
    for requirement, hashes in requirements(text):
        try:
            specifier = list(Requirement(requirement).specifier)
        except InvalidRequirement as error:
            yield f"{requirement}: {str(error).splitlines()[0]}"
            continue
        if [each.operator for each in specifier] != ["=="] or specifier[0].version.endswith("*"):
            yield f"{requirement}: is not pinned to one version"
        if not hashes or not all(each.startswith("sha256:") for each in hashes):
            yield f"{requirement}: has no sha256 hash"


def oldest_python() -> str:
    """Return the oldest Python version that pyproject.toml allows, as 3.11.0."""
    asked = tomllib.loads(_PROJECT.read_text())["project"]["requires-python"]
    return f"{asked.removeprefix('>=')}.0"


def refusing(text: str, python: str) -> Iterator[str]:
    """Yield a text for each requirement that a Python version can't install.

    Only packages that are installed here can be checked.
    """
    for requirement, _ in requirements(text):
        name, _, version = requirement.partition(" ;")[0].partition("==")
        try:
            installed = distribution(name.strip())
        except (PackageNotFoundError, ValueError):
            continue
        needed = installed.metadata["Requires-Python"] or ""
        if installed.version == version.strip() and not SpecifierSet(needed).contains(python):
            yield f"{requirement}: needs Python {needed}, and {python} is let in"


def known_vulnerabilities(lock: Path) -> Findings | None:
    """Return the findings of pip-audit, or None without data.

    The data can be unreachable. That of a mirror can lack all of these packages.
    """
    command = (str(Path(sys.executable).with_name("pip-audit")), *_FLAGS, f"--requirement={lock}")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        report = msgspec.json.decode(done.stdout, type=_Report)
    except (msgspec.MsgspecError, subprocess.TimeoutExpired):
        return None  # pip-audit writes its report only if it got all answers
    return judge(report)


def judge(report: _Report) -> Findings | None:
    """Return the findings in a report of pip-audit, or None if it has data on no package."""
    known = [each for each in report.dependencies if not each.skip_reason]
    faults = [
        f"{each.name} {each.version}: {found.id}, fixed in {', '.join(found.fix_versions) or 'no version'}"
        for each in known
        for found in each.vulns
        if found.id not in ACCEPTED
    ]
    return Findings(len(known), faults) if known else None


def main(locks: Sequence[Path]) -> int:
    """Audit lock files and return the exit status."""
    faults: list[str] = []
    reached = True
    for lock in sorted(
        locks, key=lambda each: each.stat().st_size
    ):  # the smallest first, so that few requests fail if the data can't be reached
        text = lock.read_text()
        wrong = list(unlocked(text))
        faults += [f"{lock}: {each}" for each in (*wrong, *refusing(text, oldest_python()))]
        print(f"{lock}: {len(list(requirements(text)))} requirements, {len(wrong)} without pin or hash")
        found = known_vulnerabilities(lock) if reached else None
        reached = found is not None
        if found is not None:
            faults += [f"{lock}: {each}" for each in found.faults]
            print(f"{lock}: {len(found.faults)} known vulnerabilities in {found.known} packages")
    if not reached:
        print("The data of pip-audit can't be reached from here: only pins and hashes were checked.")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main([Path(each) for each in sys.argv[1:]]))
