import pytest

from replay.manifests import configuration, water_level_manifest
from tidelock.framework.config import Configuration, read_configuration
from tidelock.model.api.water_level import WaterLevelSpec
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.scheduler_core import assemble_core
from tidelock.simulation.cluster import SCHEDULER
from tidelock.simulation.policies import POLICIES
from unit.scheduler.machinery import FakeClock


def scores(configuration: Configuration, profile: str) -> dict[str, int]:
    decider = assemble_core(configuration, FakeClock()).decider
    return {plugin.name: weight for plugin, weight in decider.profiles[profile].score}


@pytest.mark.parametrize("policy", ["default", "water-level"])
def test_a_profile_scores_as_the_policy_does(policy: str) -> None:
    written = configuration({"pool": POLICIES[policy]})
    here = scores(read_configuration(written, BUILTINS, lambda _: {}), "pool")
    simulated = scores(POLICIES[policy].configuration(0), SCHEDULER)

    assert simulated.items() <= here.items()
    judged = {"WaterLevelBalance", "NodeResourcesFit", "NodeResourcesBalancedAllocation"}
    assert judged & here.keys() == judged & simulated.keys()


def test_other_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="load-aware: expected the default profile"):
        configuration({"pool": POLICIES["load-aware"]})


def test_a_water_level_is_valid_and_can_be_changed() -> None:
    url = "http://127.0.0.1:9090"
    manifest = water_level_manifest("pool", {"a": "b"}, url, **(POLICIES["water-level"].water_level or {}))
    spec = WaterLevelSpec.model_validate(manifest["spec"])

    assert spec.source.prometheus is not None
    assert spec.source.prometheus.address == url
    assert spec.node_selector is not None
    assert spec.node_selector.match_labels == {"a": "b"}
    assert spec.staleness_seconds == 900
