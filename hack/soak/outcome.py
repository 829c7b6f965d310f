"""What came of a soak."""

from collections import Counter
from dataclasses import dataclass, field

from soak.samples import Sample


@dataclass
class Outcome:
    """What was done, and what went wrong.

    Attributes:
        lives: lives that came to their good end, by kind.
        objects: locks and pods that were made for them.
        samples: what the operator took of the machine during the churn.
        faults: what was lost or is left over, in words.

    """

    lives: Counter[str] = field(default_factory=Counter)
    objects: int = 0
    samples: list[Sample] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
