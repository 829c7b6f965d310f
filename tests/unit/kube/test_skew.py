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
def test_only_what_whole_seconds_cannot_explain_isskew_of(
    theirs: float, sent: float, received: float, skew: float
) -> None:
    assert skew_of(theirs, sent, received) == pytest.approx(skew)
