"""Which of the locks on a node are enough for a pod."""

import pytest

from tidelock.ledger.owners.best_fit import best_fit
from tidelock.model.quantities import Resources

CAPACITY = {"cpu": 100, "memory": 1000, "gpu": 10}


def cpu(*amounts: int) -> list[Resources]:
    return [{"cpu": amount} for amount in amounts]


@pytest.mark.parametrize(
    ("offers", "taken"),
    [
        (cpu(4), [0]),
        (cpu(9, 5, 4, 8), [2]),
        (cpu(9, 5, 5), [1]),
        (cpu(2, 2, 2), [0, 1]),
        (cpu(3, 1, 2), [0, 1]),
        (cpu(3, 2, 1), [0, 2]),
        (cpu(1, 2), [0, 1]),
        ([], []),
        (cpu(0, 0), []),
    ],
    ids=[
        *("as large", "smallest of those that cover", "the first of equals", "as few as cover together"),
        *("the largest and the best fit beside it", "in any order", "too little altogether", "none", "empty"),
    ],
)
def test_what_a_pod_takes(offers: list[Resources], taken: list[int]) -> None:
    assert best_fit({"cpu": 4}, offers, CAPACITY) == taken


def test_excess_of_several_resources_counts_by_its_share_of_the_node() -> None:
    spacious: Resources = {"cpu": 4, "memory": 90}
    accelerated: Resources = {"cpu": 4, "gpu": 1}
    assert best_fit({"cpu": 4}, [accelerated, spacious], CAPACITY) == [1]
    assert best_fit({"cpu": 4}, [accelerated, {"cpu": 4, "memory": 110}], CAPACITY) == [0]


def test_locks_that_complement_each_other_are_taken_together() -> None:
    offers: list[Resources] = [{"cpu": 4}, {"memory": 10}, {"cpu": 1, "memory": 1}]
    assert best_fit({"cpu": 4, "memory": 10}, offers, CAPACITY) == [0, 1]


def test_one_that_the_others_make_needless_stays() -> None:
    """By its share the first is the largest, and the other two are needed anyway."""
    offers: list[Resources] = [{"cpu": 30, "memory": 300}, {"cpu": 50}, {"memory": 500}]
    assert best_fit({"cpu": 50, "memory": 500}, offers, CAPACITY) == [1, 2]


def test_what_is_not_needed_is_no_reason_to_take_a_lock() -> None:
    assert best_fit({"cpu": 4}, [{"gpu": 1}], CAPACITY) == []
    assert best_fit({}, cpu(4), CAPACITY) == []


def test_a_tenant_with_thousands_of_locks_is_no_search() -> None:
    assert best_fit({"cpu": 2500}, cpu(*[1] * 5000), CAPACITY) == list(range(2500))
