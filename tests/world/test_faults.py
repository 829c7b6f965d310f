"""The real operator keeps I1 to I5 under all faults, in worlds that their seeds replay.

A failed run is replayed, and shrunk to the fewest steps and faults, by `python -m faults --shrink SEED`.
TIDELOCK_WORLD_SEEDS selects the runs, as `0-4999`, or a single one such as `17`.
"""

import pytest

from faults.exceptions import with_exceptions
from faults.plan import Plan, make_plan
from faults.replayed import replay
from faults.shrinking import rules, shrunk
from faults.verdict import Verdict
from sampling import seeds

_SEEDS = seeds("TIDELOCK_WORLD_SEEDS", 200, 2000)
_SEEDS_A_TEST = 10


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "batch",
    [_SEEDS[start : start + _SEEDS_A_TEST] for start in range(0, len(_SEEDS), _SEEDS_A_TEST)],
    ids=lambda batch: f"{batch[0]}-{batch[-1]}",
)
def test_promises_are_kept_under_all_faults(batch: range) -> None:
    """Half of the runs have steps that raise."""
    verdicts = [
        replay(with_exceptions(make_plan(seed)) if seed % 2 else make_plan(seed)).verdict for seed in batch
    ]
    failed = [verdict for verdict in verdicts if verdict.violations]
    files = [f"  {each.keep()}: {each.violations[0]}" for each in failed]
    told = [failed[0], *failed[0].description] if failed else []
    assert not failed, "\n".join([f"{len(failed)} of {len(batch)} runs failed:", *files, *map(str, told)])


def test_a_plan_is_replayed_as_it_was() -> None:
    first, again = replay(make_plan(3)), replay(make_plan(3))
    assert (first.digest, first.requests) == (again.digest, again.requests)


def test_a_failing_plan_shrinks_to_the_steps_that_it_needs() -> None:
    """The rule that is broken here stands for a fault of the operator: two pods are never created."""
    plan = with_exceptions(make_plan(5))
    needed = [plan.steps[2], plan.steps[-1]]
    runs: list[Plan] = []

    def run(candidate: Plan) -> Verdict:
        runs.append(candidate)
        wrong = (
            ["I1: a broken promise"] if all(step in candidate.steps for step in needed) else ["I9: another"]
        )
        return Verdict(candidate, wrong, [], None)  # type: ignore[arg-type]

    smallest = shrunk(plan, run)
    assert ([*smallest.plan.steps], smallest.plan.faults, smallest.plan.exceptions) == (
        needed,
        {},
        frozenset(),
    )
    assert rules(smallest) == {"I1"}
    assert len(runs) < 120
