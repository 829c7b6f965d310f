"""Policies that are played, beside the profile that is installed."""

from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.plugins.water_level_balance.plugin import _Args
from tidelock.simulation.policies import POLICIES


def test_what_is_installed_has_the_defaults_that_were_measured() -> None:
    """The bench played cpu alone, with metrics up to 900 s old; installed were both, up to 180 s old."""
    measured, shipped = POLICIES["water-level"], POLICIES["shipped"]
    assert (shipped.by_requests, shipped.args, shipped.water_level) == (True, {}, {})
    assert [{"name": each.name} for each in _Args().resources] == measured.args["resources"]
    assert measured.water_level is not None
    for staleness in (_Args().staleness_seconds, WaterLevelSpec.model_fields["staleness_seconds"].default):
        assert staleness == measured.water_level["stalenessSeconds"]
