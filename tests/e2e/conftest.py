import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from devcluster import attached
from devcluster.cluster import ATTACH_VARIABLE
from e2e.site import EXTENDER, HA, ROOT, Image, Site, load_image

PREVIOUS_VARIABLE = "TIDELOCK_PREVIOUS"


@pytest.fixture(scope="session")
def site() -> Site:
    """Return the cluster of TIDELOCK_KUBECONFIG, which must be one of its own for these tests."""
    cluster = attached()
    if cluster is None:
        pytest.skip(f"{ATTACH_VARIABLE} names no cluster of real kubelets: see tests/README.md")
    return Site(cluster)


@pytest.fixture(scope="session")
def previous_checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a checkout of the revision in TIDELOCK_PREVIOUS, the newest tag, or the parent commit."""
    revision = os.environ.get(PREVIOUS_VARIABLE) or _newest_tag() or "HEAD^"
    folder = tmp_path_factory.mktemp("previous") / "checkout"
    _git("worktree", "add", "--detach", str(folder), revision)
    try:
        yield folder
    finally:
        _git("worktree", "remove", "--force", str(folder))


@pytest.fixture(scope="session")
def previous(site: Site, previous_checkout: Path) -> Image:
    """Return the image of an earlier revision, in the nodes."""
    del site
    return load_image("previous", previous_checkout)


@pytest.fixture(scope="session")
def image(site: Site) -> Image:
    """Return the image of this checkout, in the nodes."""
    del site
    return load_image("e2e")


@pytest.fixture(scope="module")
def installed(site: Site, image: Image) -> Site:
    """Return the cluster with two replicas, the extender, admission and immediate answers."""
    seconds = site.install(image, HA, EXTENDER)
    print(f"\ninstalled by kustomize, ready after {seconds:.0f} s")  # noqa: T201 -- the output is the evidence
    return site


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    """Yield a stack of things to undo after a test, also a failed one."""
    with ExitStack() as stack:
        yield stack


def _newest_tag() -> str:
    command = ["git", "-C", str(ROOT), "describe", "--tags", "--abbrev=0", "HEAD^"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True)
