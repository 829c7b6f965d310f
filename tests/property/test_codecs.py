"""The wire forms of amounts and instants, against exact arithmetic."""

from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidelock.model.instants import format_instant, from_datetime, parse_instant
from tidelock.model.quantities import QuantityError, format_quantity, parse_quantity

LARGEST = 2**63 - 1
YEAR_9999 = int(datetime(9999, 1, 1, tzinfo=UTC).timestamp() * 1000)

BINARY = {f"{prefix}i": Fraction(1024) ** power for power, prefix in enumerate("KMGTPE", start=1)}
DECIMAL = {prefix: Fraction(1000) ** power for power, prefix in enumerate("num", start=-3)} | {
    prefix: Fraction(1000) ** power for power, prefix in enumerate("kMGTPE", start=1)
}
EXPONENTS = {
    f"{letter}{power}": Fraction(10) ** power for letter in "eE" for power in (-30, -2, 0, 3, 12, 40)
}
SUFFIXES = {"": Fraction(1)} | BINARY | DECIMAL | EXPONENTS

RESOURCES = st.sampled_from(["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "pods", "nvidia.com/gpu"])
ROUND_AMOUNTS = st.integers(0, 2**23 - 1).map(lambda tebibytes: tebibytes * 2**40)
NUMBERS = st.from_regex(r"[+-]?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})", fullmatch=True)


@given(RESOURCES, NUMBERS, st.sampled_from(sorted(SUFFIXES)))
@example("memory", "9223372036854775807", "")
@example("memory", "9223372036854775807.1", "")
@example("cpu", "-9223372036854775807", "m")
@example("memory", ".00000000000000000001", "e-30")
@settings(deadline=None)
def test_a_quantity_is_its_exact_value_rounded_away_from_zero(
    resource: str, number: str, suffix: str
) -> None:
    exact = Fraction(number) * SUFFIXES[suffix] * (1000 if resource == "cpu" else 1)
    magnitude = -(-abs(exact) // 1)  # rounds up
    if magnitude > LARGEST:
        with pytest.raises(QuantityError, match="is too large"):
            parse_quantity(resource, number + suffix)
    else:
        assert parse_quantity(resource, number + suffix) == (magnitude if exact > 0 else -magnitude)


@given(RESOURCES, st.integers(-LARGEST, LARGEST) | ROUND_AMOUNTS)
@settings(deadline=None)
def test_an_amount_that_is_written_is_read_back(resource: str, units: int) -> None:
    assert parse_quantity(resource, format_quantity(resource, units)) == units


@given(st.integers(0, YEAR_9999))
@settings(deadline=None)
def test_an_instant_that_is_written_is_read_back(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    text = format_instant(seconds)
    assert parse_instant(text) == seconds
    assert datetime.fromisoformat(text) == datetime.fromtimestamp(milliseconds // 1000, UTC).replace(
        microsecond=milliseconds % 1000 * 1000
    )


@given(
    st.datetimes(
        min_value=datetime(1970, 1, 1),  # noqa: DTZ001
        max_value=datetime(9998, 12, 31),  # noqa: DTZ001
        timezones=st.timezones(),
    )
)
@settings(deadline=None)
def test_an_instant_of_any_zone_is_kept_to_the_millisecond(moment: datetime) -> None:
    seconds = from_datetime(moment)
    assert abs(seconds - moment.timestamp()) <= 0.0005 + 1e-4
    assert parse_instant(format_instant(seconds)) == seconds
