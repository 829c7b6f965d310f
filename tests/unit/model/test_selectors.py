from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from tidelock.model.selectors import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    LabelSelector,
    NodeSelector,
    Requirement,
    Taint,
    Toleration,
    untolerated,
)

LABELS = {"zone": "a", "disk": "", "cores": "16"}
GPU = Taint("nvidia.com/gpu", NO_SCHEDULE, "a100")


@pytest.mark.parametrize(
    ("key", "operator", "values", "matches"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("zone", "In", (), False),
        ("rack", "In", ("a",), False),
        ("zone", "NotIn", ("b",), True),
        ("zone", "NotIn", ("a", "b"), False),
        ("rack", "NotIn", ("a",), True),
        ("disk", "Exists", (), True),
        ("rack", "Exists", (), False),
        ("disk", "DoesNotExist", (), False),
        ("rack", "DoesNotExist", (), True),
        ("zone", "Like", ("a",), False),
        ("zone", "in", ("a",), False),
    ],
)
def test_a_requirement_reads_one_label(
    key: str, operator: str, values: tuple[str, ...], matches: bool
) -> None:
    assert Requirement(key, operator, values).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("operator", "value", "matches"),
    [
        ("Gt", "15", True),
        ("Gt", "16", False),
        ("Lt", "17", True),
        ("Lt", "16", False),
        ("Gt", "-1", True),
        ("Gt", "+15", True),
        ("Gt", "many", False),
        ("Gt", "1_0", False),
        ("Gt", "1.5", False),
        ("Gt", "", False),
        ("Lt", str(2**63 - 1), True),
        ("Lt", str(2**63), False),
        ("Gt", str(-(2**63)), True),
        ("Gt", str(-(2**63) - 1), False),
    ],
)
def test_numbers_are_compared_as_whole_numbers_of_64_bits(operator: str, value: str, matches: bool) -> None:
    assert Requirement("cores", operator, (value,)).matches(LABELS) is matches


@pytest.mark.parametrize("operator", ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like"])
@pytest.mark.parametrize("values", [(), ("a",), ("a", ""), ("15",)])
@pytest.mark.parametrize("key", ["zone", "disk", "cores", "rack"])
def test_select_returns_exactly_the_items_that_match(
    key: str, operator: str, values: tuple[str, ...]
) -> None:
    requirement = Requirement(key, operator, values)
    kinds: tuple[Mapping[str, str], ...] = (LABELS, {}, {"zone": "b", "cores": "many"})
    things = [(labels, number) for number, labels in enumerate(kinds)]
    assert requirement.select(things) == [thing for thing in things if requirement.matches(thing[0])]


@pytest.mark.parametrize("operator", ["Gt", "Lt"])
@pytest.mark.parametrize(("key", "values"), [("zone", ("1",)), ("rack", ("1",)), ("cores", ("1", "99"))])
def test_only_numbers_are_compared_and_only_with_one_number(
    operator: str, key: str, values: tuple[str, ...]
) -> None:
    assert not Requirement(key, operator, values).matches(LABELS)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({}, True),
        ({"matchLabels": {"zone": "a"}}, True),
        ({"matchLabels": {"zone": "a", "disk": "ssd"}}, False),
        ({"matchLabels": {"rack": ""}}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, True),
        ({"matchLabels": {"zone": "a"}, "matchExpressions": [{"key": "rack", "operator": "Exists"}]}, False),
    ],
)
def test_a_label_selector_requires_everything_that_it_names(selector: dict[str, Any], matches: bool) -> None:
    assert msgspec.convert(selector, LabelSelector).matches(LABELS) is matches


def expression(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": values}


@pytest.mark.parametrize(
    ("terms", "matches"),
    [
        ([], False),
        ([{}], False),
        ([{"matchExpressions": []}], False),
        ([{"matchExpressions": [expression("zone", "a")]}], True),
        ([{"matchExpressions": [expression("zone", "b")]}], False),
        ([{"matchExpressions": [expression("zone", "a"), expression("cores", "8")]}], False),
        (
            [
                {"matchExpressions": [expression("zone", "b")]},
                {},
                {"matchExpressions": [expression("disk", "")]},
            ],
            True,
        ),
        ([{"matchFields": [expression("metadata.name", "node-a")]}], True),
        ([{"matchFields": [expression("metadata.name", "node-b")]}], False),
        ([{"matchFields": [expression("zone", "a")]}], False),
        (
            [
                {
                    "matchExpressions": [expression("zone", "b")],
                    "matchFields": [expression("metadata.name", "node-a")],
                }
            ],
            False,
        ),
    ],
)
def test_terms_are_ored_their_conditions_anded_and_an_empty_term_matches_nothing(
    terms: list[Any], matches: bool
) -> None:
    selector = msgspec.convert({"nodeSelectorTerms": terms}, NodeSelector)
    assert selector.matches("node-a", LABELS) is matches


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        (Toleration("nvidia.com/gpu", "Equal", "a100", NO_SCHEDULE), True),
        (Toleration("nvidia.com/gpu", "", "a100"), True),
        (Toleration("nvidia.com/gpu", value="a100"), True),
        (Toleration("nvidia.com/gpu", value="h100"), False),
        (Toleration("nvidia.com/gpu"), False),
        (Toleration("nvidia.com/gpu", "Exists"), True),
        (Toleration("nvidia.com/gpu", "Exists", effect=NO_EXECUTE), False),
        (Toleration("amd.com/gpu", "Exists"), False),
        (Toleration(operator="Exists"), True),
        (Toleration(operator="Exists", effect=NO_SCHEDULE), True),
        (Toleration(operator="Exists", effect=PREFER_NO_SCHEDULE), False),
        (Toleration(value="a100"), True),
        (Toleration(value="h100"), False),
        (Toleration("nvidia.com/gpu", "Gt", "1"), False),
    ],
)
def test_a_toleration_covers_a_taint_by_key_value_and_effect(toleration: Toleration, tolerated: bool) -> None:
    assert toleration.tolerates(GPU) is tolerated


def test_an_equal_toleration_without_a_key_covers_taints_by_their_value_alone() -> None:
    """Check the behaviour of kube-scheduler, although the API server refuses such a toleration."""
    assert Toleration().tolerates(Taint("dedicated", NO_SCHEDULE))  # its value is empty too
    assert not Toleration().tolerates(Taint("dedicated", NO_SCHEDULE, "gpu"))


def test_the_first_untolerated_taint_is_returned() -> None:
    soft = Taint("spot", PREFER_NO_SCHEDULE)
    batch = Taint("dedicated", NO_EXECUTE, "batch")
    taints = (soft, GPU, batch)
    gpu_leave = (Toleration("nvidia.com/gpu", "Exists"),)

    assert untolerated(taints, (), (NO_SCHEDULE, NO_EXECUTE)) is GPU
    assert untolerated(taints, gpu_leave, (NO_SCHEDULE, NO_EXECUTE)) is batch
    assert untolerated(taints, gpu_leave, (NO_SCHEDULE,)) is None
    assert untolerated(taints, (), (PREFER_NO_SCHEDULE,)) is soft
    assert untolerated((), (), (NO_SCHEDULE,)) is None
