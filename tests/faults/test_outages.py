"""The operator keeps I1 to I5 through outages of the API server as a whole.

The API server is killed and started again, and etcd is compacted. A right of the operator is taken and
given back. The fence against former leaders, or a CRD with all its objects, is removed and restored. The
webhook for other binders is installed, and no operator answers. These runs must keep the same promises as all
others. Only reservations that were removed with their CRD may be gone without a reason.

TIDELOCK_OUTAGE_SEEDS selects the runs, as `0-99`, or a single one such as `17`. The default is 3 runs,
and 8 in `make test-all`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.crds import install_crds
from devcluster import LocalCluster, start_cluster
from devcluster.identity import operator_kubeconfig
from faults.outages import with_outages, without
from faults.plan import make_plan
from faults.runner import run_plan
from sampling import seeds


@pytest.fixture(scope="module")
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Start a cluster that no other test uses."""
    directory = tmp_path_factory.mktemp("outages")
    with start_cluster(directory, controller_manager=False, kwok=False) as cluster:
        install_crds(cluster)
        yield cluster


@pytest.fixture(scope="module")
def identity(breakable: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return operator_kubeconfig(breakable, tmp_path_factory.mktemp("identity"))


@pytest.mark.parametrize("seed", seeds("TIDELOCK_OUTAGE_SEEDS", 3, 8))
def test_promises_are_kept_through_outages(breakable: LocalCluster, identity: Path, seed: int) -> None:
    plan = with_outages(make_plan(seed, levels=1.0))
    verdict = run_plan(breakable.kubeconfig, identity, plan, breakable=breakable)
    assert not verdict.violations, "\n".join(
        [f"all evidence is in {verdict.keep()}", str(verdict), *verdict.description]
    )


def test_one_right_is_taken_and_no_other() -> None:
    rules = [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["pods"], "verbs": ["list"]},
    ]
    assert list(without(rules, "", "pods", "list")) == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["watch"]},
        rules[1],
    ]
