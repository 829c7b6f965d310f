"""Finds the smallest plan that still fails: the fewest steps, faults and exceptions.

It removes ever smaller parts for as long as the run still breaks a rule that the first one broke, as in delta
debugging (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from faults.plan import Plan
from faults.verdict import Verdict

_T = TypeVar("_T")


def rules(verdict: Verdict) -> frozenset[str]:
    """Return the rules that a run has broken, such as I1. Other violations count by their beginning."""
    return frozenset(each.partition(":")[0] for each in verdict.violations)


def shrunk(plan: Plan, run: Callable[[Plan], Verdict]) -> Verdict:
    """Return the verdict of the smallest plan that still breaks a rule that this one breaks.

    Raises:
        ValueError: the plan breaks none.

    """
    smallest = run(plan)
    broken = rules(smallest)
    if not broken:
        raise ValueError(f"the plan of seed {plan.seed} breaks no rule")

    def accept(candidate: Plan) -> bool:
        nonlocal smallest
        verdict = run(candidate)
        if not rules(verdict) & broken:
            return False
        smallest = verdict
        return True

    size = -1
    while size != (size := _size(smallest.plan)):
        _shrink(smallest.plan.steps, lambda kept: accept(replace(smallest.plan, steps=tuple(kept))))
        faults = sorted(smallest.plan.faults.items())
        _shrink(faults, lambda kept: accept(replace(smallest.plan, faults=dict(kept))))
        exceptions = sorted(smallest.plan.exceptions)
        _shrink(exceptions, lambda kept: accept(replace(smallest.plan, exceptions=frozenset(kept))))
    return smallest


def _shrink(parts: Sequence[_T], accept: Callable[[Sequence[_T]], bool]) -> None:
    """Remove parts, from halves to single ones, whenever the rest is accepted."""
    length = max(len(parts) // 2, 1)
    while parts:
        start = 0
        while start < len(parts):
            rest = [*parts[:start], *parts[start + length :]]
            if accept(rest):
                parts = rest
            else:
                start += length
        if length == 1:
            return
        length //= 2


def _size(plan: Plan) -> int:
    return len(plan.steps) + len(plan.faults) + len(plan.exceptions)
