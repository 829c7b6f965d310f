"""The time of a decision, for plugins with answers that depend on time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecisionTime:
    """The time of the decision in seconds since the epoch, which the cycle writes into every state."""

    now: float
