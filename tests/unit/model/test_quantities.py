import pytest

from tidelock.model.quantities import (
    QuantityError,
    at_least,
    at_most,
    covers,
    format_quantity,
    format_resources,
    parse_quantity,
    parse_resources,
    plus,
)


@pytest.mark.parametrize(
    ("text", "millicores"),
    [
        ("2", 2000),
        (2, 2000),
        ("500m", 500),
        ("0.5", 500),
        (".5", 500),
        ("1.", 1000),
        ("+1", 1000),
        ("-1", -1000),
        ("1k", 1_000_000),
        ("1e3", 1_000_000),
        ("1E3", 1_000_000),
        ("5e-1", 500),
        ("0", 0),
    ],
)
def test_cpu_is_read_in_millicores(text: str | int, millicores: int) -> None:
    assert parse_quantity("cpu", text) == millicores


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("1Ki", 2**10),
        ("1.5Gi", 3 * 2**29),
        ("1Ei", 2**60),
        ("1k", 10**3),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1e18", 10**18),
        ("4000m", 4),
    ],
)
def test_other_resources_are_read_in_their_base_unit(text: str, units: int) -> None:
    assert parse_quantity("memory", text) == units


@pytest.mark.parametrize(
    ("resource", "text", "units"),
    [
        ("cpu", "1u", 1),
        ("cpu", "1n", 1),
        ("cpu", "1000001u", 1001),
        ("cpu", "-1u", -1),
        ("memory", "1m", 1),
        ("memory", "0.1Ki", 103),
        ("memory", "1e-999", 1),
    ],
)
def test_fractions_of_the_unit_are_rounded_away_from_zero(resource: str, text: str, units: int) -> None:
    assert parse_quantity(resource, text) == units


ARABIC_ONE = "\N{ARABIC-INDIC DIGIT ONE}"
BAD_NUMBERS = ("one", "NaN", "Infinity", "-Infinity", "1_000", "1,5", "0x10", ARABIC_ONE)
BAD_FORMS = ("", " 1", "1 ", "1\n", ".", "+", "--1")
BAD_SUFFIXES = ("1K", "1ki", "1mi", "1Mib", "1mm", "1e", "1e1000", "1ee3", "1e3Ki")


@pytest.mark.parametrize("text", [*BAD_NUMBERS, *BAD_FORMS, *BAD_SUFFIXES])
def test_a_quantity_that_the_api_server_refuses_is_an_error(text: str) -> None:
    with pytest.raises(QuantityError, match=r"^memory: .* is not a quantity such as 2, 500m or 4Gi$"):
        parse_quantity("memory", text)


def test_amounts_have_at_most_64_bits() -> None:
    assert parse_quantity("memory", str(2**63 - 1)) == 2**63 - 1
    assert parse_quantity("memory", str(1 - 2**63)) == 1 - 2**63
    for resource, text in (("memory", str(2**63)), ("memory", "8Ei"), ("cpu", "1e16"), ("cpu", "-1e999")):
        with pytest.raises(QuantityError, match=f"^{resource}: '{text}' is too large$"):
            parse_quantity(resource, text)


def test_the_first_bad_amount_of_a_list_is_named() -> None:
    with pytest.raises(QuantityError, match=r"^nvidia\.com/gpu: 'two'"):
        parse_resources({"cpu": "1", "nvidia.com/gpu": "two"})


@pytest.mark.parametrize(
    ("resource", "units", "text"),
    [
        ("cpu", 2000, "2"),
        ("cpu", 1500, "1500m"),
        ("cpu", -1500, "-1500m"),
        ("cpu", 0, "0"),
        ("memory", 4 * 2**30, "4Gi"),
        ("memory", 3 * 2**29, "1536Mi"),
        ("memory", -(2**30), "-1Gi"),
        ("memory", 1000, "1000"),
        ("memory", 0, "0"),
        ("ephemeral-storage", 2**40, "1Ti"),
        ("hugepages-2Mi", 2**21, "2Mi"),
        ("pods", 1024, "1024"),
        ("nvidia.com/gpu", 1024, "1024"),
    ],
)
def test_amounts_are_written_in_their_usual_notation(resource: str, units: int, text: str) -> None:
    assert format_quantity(resource, units) == text


def test_a_resource_list_is_written_sorted_by_name() -> None:
    written = format_resources({"memory": 2**30, "cpu": 100})
    assert list(written.items()) == [("cpu", "100m"), ("memory", "1Gi")]


def test_lists_are_combined_resource_by_resource() -> None:
    left, right = {"cpu": 1, "memory": 5}, {"cpu": 3, "pods": 1}

    assert plus(left, right) == {"cpu": 4, "memory": 5, "pods": 1}
    assert at_least(left, right) == {"cpu": 3, "memory": 5, "pods": 1}
    assert at_most(left, right) == {"cpu": 1}
    assert left == {"cpu": 1, "memory": 5}, "the operands stay as they are"


@pytest.mark.parametrize(
    ("small", "covered"),
    [
        ({}, True),
        ({"cpu": 2}, True),
        ({"cpu": 3}, False),
        ({"memory": 0}, True),
        ({"cpu": 1, "memory": 1}, False),
    ],
)
def test_a_list_covers_another_that_is_nowhere_larger(small: dict[str, int], covered: bool) -> None:
    assert covers({"cpu": 2}, small) is covered


def test_a_quantity_of_a_megabyte_is_refused_by_its_length() -> None:
    """Guard against a quantity of 900,000 digits that takes 20 s to parse and is repeated in the error."""
    with pytest.raises(QuantityError, match=r"^cpu: a quantity of 900000 characters; expected at most 1000"):
        parse_quantity("cpu", "1" * 900_000)
