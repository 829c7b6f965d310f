from contextlib import suppress

import pytest
from hypothesis import HealthCheck, settings

from devcluster import DevClusterError, attached
from devcluster.binaries import find_binaries
from devcluster.prometheus import find_prometheus

# A slow machine is no fault of what is tested, and a test that passes once passes again: whoever looks for
# other examples says --hypothesis-profile=explore.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tidelock", settings.get_profile("explore"), derandomize=True)
settings.load_profile("tidelock")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is needed before the first test: a test's time-out is shorter than a cold build."""
    fixtures = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    cluster = "scheduled_cluster" in fixtures or ("controlplane" in fixtures and attached() is None)
    wanted = [find_binaries] * cluster + [find_prometheus] * ("prometheus" in fixtures)
    if not wanted or session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    for find in wanted:
        with capture.global_and_fixture_disabled(), suppress(DevClusterError):  # the fixture tells the error
            find()
