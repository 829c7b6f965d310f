"""The operator keeps I1 to I5 although steps of the program raise exceptions, beside all other faults.

TIDELOCK_EXCEPTION_SEEDS selects the runs, as `0-99`, or a single one such as `17`. The default is 10 runs,
and 80 in `make test-all`.
"""

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from devcluster import LocalCluster
from faults.exceptions import PLACES, with_exceptions
from faults.plan import make_plan
from faults.runner import run_plan
from sampling import seeds

_SEEDS = seeds("TIDELOCK_EXCEPTION_SEEDS", 10, 80)
_SHOWN = 3


@pytest.mark.timeout(900)
def test_promises_are_kept_although_steps_raise(
    bare_cluster: LocalCluster, operator_identity: Path, processes: ProcessPoolExecutor
) -> None:
    run_one = partial(run_plan, bare_cluster.kubeconfig, operator_identity)
    plans = [with_exceptions(make_plan(seed)) for seed in _SEEDS]
    failed = [verdict for verdict in processes.map(run_one, plans) if verdict.violations]
    files = [f"  {each.keep()}: {each.violations[0]}" for each in failed]
    told = "\n\n".join(map(str, failed[:_SHOWN]))
    assert not failed, "\n".join(
        [f"{len(failed)} of {len(plans)} runs failed, with their evidence in:", *files, told]
    )


def test_every_step_is_a_method() -> None:
    assert all(callable(getattr(owner, method)) for owner, method in PLACES.values())
