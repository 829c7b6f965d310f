from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import HealthCheck, settings

from devcluster import DevClusterError, attached
from devcluster.binaries import find_binaries
from devcluster.monitoring import SOURCES, find_program

# A slow machine is no fault of what is tested, and a test that passes once passes again: whoever looks for
# other examples says --hypothesis-profile=explore.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tidelock", settings.get_profile("explore"), derandomize=True)
settings.load_profile("tidelock")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what is needed before the first test: a test's time-out is shorter than a cold build."""
    fixtures = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    cluster = "scheduled_cluster" in fixtures or ("controlplane" in fixtures and attached() is None)
    wanted: list[Callable[[], object]] = [find_binaries] if cluster else []
    wanted += [partial(find_program, name) for name in SOURCES if name.replace("-", "_") in fixtures]
    if not wanted or session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    for find in wanted:
        with capture.global_and_fixture_disabled(), suppress(DevClusterError):  # the fixture tells the error
            find()
