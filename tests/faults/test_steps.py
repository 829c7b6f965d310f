"""The actions of steps, without a cluster."""

from inspect import signature

from faults.plan import make_plan
from faults.steps import ACTIONS


def test_each_step_has_an_action_that_takes_its_arguments() -> None:
    steps = [step for seed in range(100) for step in make_plan(seed, levels=1.0, answers=1.0).steps]
    for step in steps:
        signature(ACTIONS[step.action]).bind(None, **step.arguments)
    assert len({step.action for step in steps}) > 30
