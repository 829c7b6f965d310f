import signal
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from balancing import LongestFirst
from devcluster import DevClusterError, attached
from devcluster.binaries import find_binaries
from devcluster.tools import SOURCES, find_program
from evidence import sections
from installation.rendering import Charted, Kustomized
from resting import rest, wake
from sampling import sample

# A shell lets commands in the background ignore Ctrl-C, and so their children. Tests send it to programs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine must not fail a test, and a test that passes once must pass again.
# --hypothesis-profile=explore tries other examples.
settings.register_profile(
    "explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile(
    "tidelock", settings.get_profile("explore"), derandomize=True, max_examples=sample(50, 100)
)
settings.load_profile("tidelock")


@pytest.fixture(scope="session")
def helm() -> Path:
    """Return the path of the Helm program."""
    return find_program("helm")


@pytest.fixture(scope="session")
def charted(helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Charted:
    """Return the chart as Helm renders it, with an empty home so that no user's settings apply."""
    return Charted(helm, tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """Return the path of kubectl, in the version that the project pins."""
    return find_binaries().programs["kubectl"]


@pytest.fixture(scope="session")
def kustomized(kubectl: Path, tmp_path_factory: pytest.TempPathFactory) -> Kustomized:
    """Return a renderer of base and its parts by kustomize."""
    return Kustomized(kubectl, tmp_path_factory.mktemp("kustomize"))


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the files of a release of this tree."""
    from release import ROOT, build  # noqa: PLC0415 -- most tests need no builder of a bill of materials

    folder = tmp_path_factory.mktemp("release") / "files"
    build(ROOT, folder, epoch=1_700_000_000)
    return folder


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the required programs before the first test. A cold build takes longer than a test's timeout."""
    fixtures = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    clusters = {"scheduled_cluster", "private_cluster", "bare_cluster", "kubelet_cluster", "attacked_cluster"}
    own = fixtures & (clusters | {"kubectl"})
    cluster = own or ("controlplane" in fixtures and attached() is None)
    wanted: list[Callable[[], object]] = [find_binaries] if cluster else []
    wanted += [partial(find_program, name) for name in SOURCES if name.replace("-", "_") in fixtures]
    if not wanted or session.config.option.collectonly:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    for find in wanted:
        with (
            capture.global_and_fixture_disabled(),
            suppress(DevClusterError),
        ):  # the fixture reports the error
            find()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Wake the shared clusters that a test uses, and let them rest after the last test of its file."""
    wake(getattr(item, "fixturenames", ()))
    result = yield
    if nextitem is None or nextitem.path != item.path:
        rest()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the ends of the logs of its servers to the report of a failed test."""
    report = yield
    if report.failed:
        report.sections += sections(getattr(item, "funcargs", {}))
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Schedule the longest files and folders first where files are scheduled as a whole."""
    return LongestFirst(config, log) if config.getvalue("dist") == "loadfile" else None
