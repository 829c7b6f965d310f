from typing import Any

import pytest

from soak.accounts import of_api, of_ledger
from soak.samples import Metrics

SIZE = {"cpu": "4", "memory": "8Gi", "pods": "110"}
NODE = {"metadata": {"name": "a"}, "status": {"allocatable": SIZE}}
LOCK = {"status": {"phase": "Active", "nodeName": "a", "resources": {"cpu": "1500m"}}}
AGREED: Metrics = {
    "tidelock_allocatable": {("cpu",): 4.0, ("memory",): 8.0 * 2**30, ("pods",): 110.0},
    "tidelock_requested": {("cpu",): 0.5, ("memory",): 0.0, ("pods",): 1.0},
    "tidelock_locked": {("cpu",): 1.5, ("memory",): 0.0, ("pods",): 1.0},
    "tidelock_reservations": {("Active",): 1.0, ("Pending",): 0.0},
    "scheduler_pending_pods": {("active",): 1.0, ("backoff",): 0.0},
}


def pod(node: str) -> dict[str, Any]:
    container = {"resources": {"requests": {"cpu": "500m"}}}
    return {"spec": {"containers": [container]} | ({"nodeName": node} if node else {})}


def test_a_ledger_that_agrees_with_the_api_has_no_differences() -> None:
    api = of_api([NODE], [pod("a"), pod("")], [LOCK])
    assert of_ledger(AGREED).differences(api) == []


def test_a_pod_on_a_deleted_node_does_not_count() -> None:
    assert of_api([NODE], [pod("b")], []) == of_api([NODE], [], [])


@pytest.mark.parametrize(
    ("metric", "labels", "value", "difference"),
    [
        ("tidelock_locked", ("cpu",), 2.0, "locked cpu: 2000 in the ledger, 1500 in the API"),
        ("tidelock_requested", ("pods",), 0.0, "requested pods: 0 in the ledger, 1 in the API"),
        ("tidelock_allocatable", ("gpu",), 1.0, "allocatable gpu: 1 in the ledger, 0 in the API"),
        ("tidelock_reservations", ("Pending",), 1.0, "locks Pending: 1 in the ledger, 0 in the API"),
        ("scheduler_pending_pods", ("backoff",), 1.0, "pods waiting: 2 in the ledger, 1 in the API"),
    ],
)
def test_a_difference_is_reported_with_both_values(
    metric: str, labels: tuple[str, ...], value: float, difference: str
) -> None:
    ledger = of_ledger(AGREED | {metric: AGREED[metric] | {labels: value}})
    assert ledger.differences(of_api([NODE], [pod("a"), pod("")], [LOCK])) == [difference]
