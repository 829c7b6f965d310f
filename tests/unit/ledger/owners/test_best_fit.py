"""The choice among the reservations of a pod on a node."""

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
def test_a_pod_takes_as_few_and_as_small_reservations_as_cover_it(
    offers: list[Resources], taken: list[int]
) -> None:
    assert best_fit({"cpu": 4}, offers, CAPACITY) == taken


def test_excess_of_several_resources_counts_by_its_share_of_the_node() -> None:
    spacious: Resources = {"cpu": 4, "memory": 90}
    accelerated: Resources = {"cpu": 4, "gpu": 1}
    assert best_fit({"cpu": 4}, [accelerated, spacious], CAPACITY) == [1]
    assert best_fit({"cpu": 4}, [accelerated, {"cpu": 4, "memory": 110}], CAPACITY) == [0]


@pytest.mark.parametrize("capacity", [{"cpu": 100}, {"cpu": 100, "gpu": 0}])
def test_one_excess_unit_of_a_resource_without_capacity_counts_as_a_whole_node(capacity: Resources) -> None:
    assert best_fit({"cpu": 4}, [{"cpu": 4, "gpu": 1}, {"cpu": 103}], capacity) == [1]
    assert best_fit({"cpu": 4}, [{"cpu": 4, "gpu": 1}, {"cpu": 105}], capacity) == [0]


def test_reservations_that_complement_each_other_are_taken_together() -> None:
    offers: list[Resources] = [{"cpu": 4}, {"memory": 10}, {"cpu": 1, "memory": 1}]
    assert best_fit({"cpu": 4, "memory": 10}, offers, CAPACITY) == [0, 1]


def test_a_reservation_that_the_others_make_unnecessary_is_not_taken() -> None:
    """Check that the largest offer by its share of the node is dropped if the two others suffice."""
    offers: list[Resources] = [{"cpu": 30, "memory": 300}, {"cpu": 50}, {"memory": 500}]
    assert best_fit({"cpu": 50, "memory": 500}, offers, CAPACITY) == [1, 2]


def test_a_reservation_without_a_needed_resource_is_not_taken() -> None:
    assert best_fit({"cpu": 4}, [{"gpu": 1}], CAPACITY) == []
    assert best_fit({}, cpu(4), CAPACITY) == []


def test_thousands_of_reservations_need_no_exponential_search() -> None:
    assert best_fit({"cpu": 2500}, cpu(*[1] * 5000), CAPACITY) == list(range(2500))
