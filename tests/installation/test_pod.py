"""What the kubelet does with the operator's pod while it starts."""

import pytest

from installation.rendering import Charted, Kustomized, Manifest, by_key

_SLOW_START = 48  # seconds before the first line of the log, on a machine with much other load
_SAFETY = 4


def container(objects: list[Manifest]) -> Manifest:
    spec: Manifest = by_key(objects)["Deployment/tidelock"]["spec"]["template"]["spec"]
    (only,) = spec["containers"]
    found: Manifest = only
    return found


@pytest.fixture(params=["manifests", "chart"])
def installed(request: pytest.FixtureRequest, kustomized: Kustomized, charted: Charted) -> Manifest:
    """Return the operator's container as it is installed without any choice."""
    return container(kustomized.objects() if request.param == "manifests" else charted.objects({}))


def test_a_slow_start_is_not_killed(installed: Manifest) -> None:
    """The liveness probe killed a start after 30 s, and each further one, where a start takes longer."""
    startup, liveness = installed["startupProbe"], installed["livenessProbe"]
    assert startup["httpGet"] == liveness["httpGet"]
    assert startup["failureThreshold"] * startup["periodSeconds"] >= _SAFETY * _SLOW_START


def test_the_startup_probe_does_not_delay_readiness(installed: Manifest) -> None:
    assert installed["startupProbe"]["periodSeconds"] <= installed["readinessProbe"]["periodSeconds"]
