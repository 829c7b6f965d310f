"""The simulated policies, compared with the installed profile."""

from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.plugins.water_level_balance.plugin import WaterLevelBalanceArgs
from tidelock.simulation.policies import POLICIES


def test_the_installed_profile_has_the_simulated_defaults() -> None:
    """The simulation once used only metrics up to 900 s old. Installed were 180 s."""
    measured, shipped = POLICIES["water-level"], POLICIES["shipped"]
    assert (shipped.by_requests, shipped.args, shipped.water_level) == (True, {}, {})
    assert measured.water_level is not None
    for staleness in (
        WaterLevelBalanceArgs().staleness_seconds,
        WaterLevelSpec.model_fields["staleness_seconds"].default,
    ):
        assert staleness == measured.water_level["stalenessSeconds"]


def test_the_args_have_the_defaults_of_a_water_level() -> None:
    """Nodes without a WaterLevel are scored as those with one at its defaults."""
    args, fields = WaterLevelBalanceArgs(), WaterLevelSpec.model_fields
    windows = {each.duration: each.weight for each in fields["windows"].default}
    assert {each.duration: each.weight for each in args.windows} == windows
    target = fields["target"].default
    assert (args.target.mode, args.target.percent) == (target.mode, target.percent)
    assert args.target.min_weight == target.min_weight
