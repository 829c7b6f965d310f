import pytest

from tidelock.kube.skew import skew_of


@pytest.mark.parametrize(
    ("theirs", "sent", "received", "skew"),
    [
        (100.0, 100.2, 100.9, 0.0),
        (100.0, 100.2, 101.1, 0.0),
        (100.0, 99.9, 100.1, 0.0),
        (105.0, 100.0, 100.5, 4.5),
        (95.0, 100.0, 100.5, -4.0),
    ],
)
def test_only_differences_beyond_whole_seconds_are_skew(
    theirs: float, sent: float, received: float, skew: float
) -> None:
    assert skew_of(theirs, sent, received) == pytest.approx(skew)
