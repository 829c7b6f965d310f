"""Brings the custom resources into a cluster."""

from pathlib import Path

from devcluster import Cluster

_ROOT = Path(__file__).parents[2]
SAMPLES = _ROOT / "manifests" / "samples"
_DEFINITIONS = ("crd/reservations.tidelock.dev", "crd/waterlevels.tidelock.dev")


def install_crds(cluster: Cluster) -> None:
    """Apply crds/ and wait until both kinds are served; harmless if they are there."""
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(_ROOT / "crds"))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", *_DEFINITIONS)
