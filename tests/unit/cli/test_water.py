from dataclasses import replace

from builders import NOW, water_level
from tidelock.cli.water import settings_of

NIGHT = {"name": "night", "start": "0 22 * * *", "end": "30 8 * * *", "weightPercent": 50}
EXPLAINED = "requests explain 60% of the variance of use"


def test_sentences_name_tides_and_weights_that_differ() -> None:
    levels = [
        water_level("plain"),
        water_level("unreadable", windows=1),
        water_level("tidal", tides=[NIGHT]),
        replace(water_level("learning", learnWeight=True), unexplained=0.4),
    ]
    assert list(settings_of(levels, NOW)) == [
        "WaterLevel tidal: the tide night is in force until 2027-01-15T08:30:00Z.",
        "WaterLevel tidal: measured use has 50% of its weight.",
        f"WaterLevel learning: measured use has 40% of its weight, and {EXPLAINED}.",
    ]
