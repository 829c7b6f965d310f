from pathlib import Path

import pytest

from devcluster.binaries import find_binaries
from installation.rendering import Kustomized


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """Return the path of kubectl, in the version that the project pins."""
    return find_binaries().programs["kubectl"]


@pytest.fixture(scope="session")
def kustomized(kubectl: Path, tmp_path_factory: pytest.TempPathFactory) -> Kustomized:
    """Return a renderer of base, overlays and components by kustomize."""
    return Kustomized(kubectl, tmp_path_factory.mktemp("kustomize"))
