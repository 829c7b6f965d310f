"""When a decision is made, for plugins whose judgement changes with time alone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DecisionTime:
    """The instant of the decision, in seconds since the epoch; the cycle writes it into every state."""

    now: float
