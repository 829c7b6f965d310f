"""Work for the workers of pytest-xdist: files and folders with servers, the longest first.

`make durations` writes the seconds of each file to durations.json, from the last report of `make servers`.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from xml.etree import ElementTree as ET

from xdist.scheduler import LoadFileScheduling

_TESTS = Path(__file__).parent
_DURATIONS = _TESTS / "durations.json"

# Each of these folders has a cluster or a browser that no other folder uses. An API server costs processor
# time even while no test uses it, and some seconds to start. Each of these folders takes less than half of a
# worker's time. So one worker starts it, and not each of them.
_ON_ONE_WORKER = frozenset({"attacks", "browser", "differential", "faults", "kubelet"})


def share(nodeid: str) -> str:
    """Return the file of a test, or its folder, which one worker runs as a whole."""
    file = nodeid.partition("::")[0]
    folder = Path(file).parent.name
    return folder if folder in _ON_ONE_WORKER else file


def seconds(nodeids: Iterable[str], durations: Mapping[str, float]) -> float:
    """Return how long tests take together. A file without a known duration takes as long as the average."""
    average = fmean(durations.values()) if durations else 1.0
    files = {nodeid.partition("::")[0] for nodeid in nodeids}
    return sum(durations.get(file, average) for file in files)


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]
    """Gives the longest share that is left to the next worker that has nothing to do."""

    durations: Mapping[str, float] = json.loads(_DURATIONS.read_text()) if _DURATIONS.exists() else {}

    def _split_scope(self, nodeid: str) -> str:
        return share(nodeid)

    def _assign_work_unit(self, node: object) -> None:
        longest = max(self.workqueue, key=lambda each: seconds(self.workqueue[each], self.durations))
        self.workqueue.move_to_end(longest, last=False)
        super()._assign_work_unit(node)


def measured(report: Path) -> dict[str, int]:
    """Return the seconds of each file in a JUnit XML, in the order of their names."""
    found: defaultdict[str, float] = defaultdict(float)
    for case in ET.parse(report).getroot().iter("testcase"):  # noqa: S314 -- pytest has written it
        parts = case.attrib["classname"].split(".")
        while parts and not (file := _TESTS.parent.joinpath(*parts).with_suffix(".py")).exists():
            parts.pop()  # a class
        if parts:
            found[str(file.relative_to(_TESTS.parent))] += float(case.attrib["time"])
    return {file: max(1, round(found[file])) for file in sorted(found)}


if __name__ == "__main__":
    _DURATIONS.write_text(json.dumps(measured(Path(sys.argv[1])), indent=1) + "\n")
