"""The verdict on a run, and the file that keeps all evidence of a run that failed.

`python -m faults.verdict build/faults/seed-17-<time>.json` makes the checker judge such a file again.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faults.checker import Checker
from faults.creations import Granted
from faults.history import Change, Json
from faults.observations import Delivery, Passed
from faults.plan import Plan
from faults.world import Circumstances

FOLDER = Path(__file__).parents[2] / "build" / "faults"
"""The folder for the files of failed runs."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All evidence of a run.

    Attributes:
        circumstances: facts for the checker beside the history.
        changes: the API's history.
        log: lines that the operator has logged.

    """

    circumstances: Circumstances
    changes: Sequence[Change]
    log: Sequence[str]

    def judged(self) -> list[str]:
        """Replay the history in the checker, and return its findings."""
        return Checker(self.circumstances).replay(self.changes)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The violations of a run, empty if it kept all promises.

    `description` describes the run for people, and `fired` has the faults that took effect.
    """

    plan: Plan
    violations: list[str]
    description: list[str]
    evidence: Evidence
    fired: Sequence[str] = ()

    def __str__(self) -> str:
        wrong = [f"  {each}" for each in self.violations]
        return "\n".join([f"seed {self.plan.seed}, run again by: {self.again}", *wrong, str(self.plan)])

    @property
    def again(self) -> str:
        """The command that runs the plan once more."""
        if self.plan.outages:
            return f"TIDELOCK_OUTAGE_SEEDS={self.plan.seed} pytest tests/faults/test_outages.py"
        return f"TIDELOCK_FAULT_SEEDS={self.plan.seed} pytest tests/faults/test_faults.py"

    def keep(self, folder: Path = FOLDER) -> Path:
        """Write everything to a file, one item a line so that people can read it, and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        kind, now = "outage" if self.plan.outages else "seed", datetime.now(UTC)
        path = folder / f"{kind}-{self.plan.seed}-{now:%Y%m%dT%H%M%S.%fZ}.json"
        path.write_text("{\n" + ",\n".join(self._parts()) + "\n}\n")
        return path

    def _parts(self) -> Iterator[str]:
        evidence, known = self.evidence, self.evidence.circumstances
        lists: Mapping[str, Sequence[Any]] = {
            "violations": self.violations,
            "plan": str(self.plan).splitlines(),
            "description": self.description,
            "log": evidence.log,
            **{each.name: [_plain(item) for item in getattr(known, each.name)] for each in fields(known)},
            "changes": [asdict(each) for each in evidence.changes],
        }
        yield f'"again": {json.dumps(self.again)}'
        for name, items in lists.items():
            lines = ",\n".join(f"  {json.dumps(item)}" for item in items)
            yield f'"{name}": [\n{lines}\n]'


def read(path: Path) -> Evidence:
    """Read the evidence in a file."""
    stored: Json = json.loads(path.read_text())
    circumstances = Circumstances(
        asked=[Passed(**each) for each in stored["asked"]],
        foreign=set(stored["foreign"]),
        deleted=set(stored["deleted"]),
        peaks=[(at, clock) for at, clock in stored["peaks"]],
        deliveries=[Delivery(**each) for each in stored["deliveries"]],
        crashes=stored["crashes"],
        granted=[Granted(**each) for each in stored.get("granted", ())],
    )
    return Evidence(circumstances, [Change(**each) for each in stored["changes"]], stored["log"])


def _plain(item: Any) -> Any:
    """Return an item of the circumstances as JSON has it."""
    if isinstance(item, Passed):
        return asdict(item)
    return item._asdict() if isinstance(item, Delivery | Granted) else item


if __name__ == "__main__":
    for file in sys.argv[1:]:
        print(*read(Path(file)).judged(), sep="\n")  # noqa: T201 -- it talks to a terminal
