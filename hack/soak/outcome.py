"""The result of a soak."""

from collections import Counter
from dataclasses import dataclass, field

from soak.samples import Sample


@dataclass
class Outcome:
    """The result of a soak.

    Attributes:
        lives: number of lives with their expected end, by kind.
        objects: number of reservations and pods that were created.
        samples: samples of the operator during the churn.
        faults: a text for each fault, such as a lost object or a leftover.

    """

    lives: Counter[str] = field(default_factory=Counter)
    objects: int = 0
    samples: list[Sample] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
