"""Tests that need a feature of newer versions of Kubernetes."""

import pytest

from devcluster.binaries import wanted_version


def needs(version: str, feature: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test on an older Kubernetes than the one that has a feature."""
    return pytest.mark.skipif(not runs(version), reason=f"{feature}: from Kubernetes {version} on")


def runs(version: str) -> bool:
    """Return whether the tests run against this version of Kubernetes or a newer one."""
    return _parts(wanted_version()) >= _parts(version)


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


EXTENDED_RESOURCES = "1.36"
"""The first version in which a DeviceClass provides an extended resource by default."""
needs_extended_resources = needs(EXTENDED_RESOURCES, "extended resources of a DeviceClass")
