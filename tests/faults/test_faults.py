"""The real operator, behind a faulty proxy in front of a real API server, keeps I1 to I5 under all faults.

All evidence of a failed run is in a file, which the message names.

TIDELOCK_FAULT_SEEDS selects the runs, as `0-4999`, or a single one such as `17`. The default is 40 runs,
and 160 in `make test-all`.
"""

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from devcluster import LocalCluster
from faults.plan import make_plan
from faults.runner import run_plan
from sampling import seeds

_SEEDS = seeds("TIDELOCK_FAULT_SEEDS", 40, 160)
_SEEDS_A_TEST = 20
_SHOWN = 3


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "batch",
    [_SEEDS[start : start + _SEEDS_A_TEST] for start in range(0, len(_SEEDS), _SEEDS_A_TEST)],
    ids=lambda batch: f"{batch[0]}-{batch[-1]}",
)
def test_promises_are_kept_under_all_faults(
    bare_cluster: LocalCluster, operator_identity: Path, processes: ProcessPoolExecutor, batch: range
) -> None:
    run_one = partial(run_plan, bare_cluster.kubeconfig, operator_identity)
    failed = [verdict for verdict in processes.map(run_one, map(make_plan, batch)) if verdict.violations]
    files = [f"  {each.keep()}: {each.violations[0]}" for each in failed]
    told = "\n\n".join(map(str, failed[:_SHOWN]))
    description = failed[0].description if failed else []
    assert not failed, "\n".join(
        [f"{len(failed)} of {len(batch)} runs failed, with their evidence in:", *files, told, *description]
    )
