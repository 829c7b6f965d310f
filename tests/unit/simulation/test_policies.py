"""The simulated policies, compared with the installed profile."""

from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalanceArgs
from tidelock.simulation.policies import POLICIES


def test_the_installed_profile_has_the_simulated_defaults() -> None:
    """The simulation once used only cpu and metrics up to 900 s old. Installed were both, and 180 s."""
    measured, shipped = POLICIES["water-level"], POLICIES["shipped"]
    assert (shipped.by_requests, shipped.args, shipped.water_level) == (True, {}, {})
    assert [{"name": each.name} for each in WaterLevelBalanceArgs().resources] == measured.args["resources"]
    assert measured.water_level is not None
    for staleness in (
        WaterLevelBalanceArgs().staleness_seconds,
        WaterLevelSpec.model_fields["staleness_seconds"].default,
    ):
        assert staleness == measured.water_level["stalenessSeconds"]
