"""Tests that need a feature of newer versions of Kubernetes."""

import pytest

from devcluster.binaries import wanted_version


def needs(version: str, feature: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test on an older Kubernetes than the one that has a feature."""
    older = _parts(wanted_version()) < _parts(version)
    return pytest.mark.skipif(older, reason=f"{feature}: from Kubernetes {version} on")


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
