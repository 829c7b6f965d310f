from collections.abc import Iterator

import pytest

from devcluster import LocalCluster, start_cluster
from differential.upstream import FLAGS, SETTINGS
from tidelock.plugins.registry import REGISTRY

OPTIONAL = (
    "DynamicResources",
    "InterPodAffinity",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "VolumeBinding",
    "VolumeRestrictions",
    "VolumeZone",
)
"""Plugins that kube-scheduler is to have only if Tidelock has them."""


@pytest.fixture(scope="session")
def scheduled_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """An API server and kube-scheduler, and nothing else: no kubelets, no controllers."""
    disabled = [{"name": name} for name in OPTIONAL if name not in REGISTRY]
    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"disabled": disabled}}}
    with start_cluster(
        tmp_path_factory.mktemp("differential"),
        scheduler=True,
        scheduler_settings={**SETTINGS, "profiles": [profile]},
        scheduler_flags=FLAGS,
        controller_manager=False,
        kwok=False,
    ) as started:
        yield started
