"""Installs Tidelock's custom resources in a cluster."""

from pathlib import Path

from cluster.api import Api
from cluster.plain_reservations import reservation
from devcluster import Cluster, DevClusterError, wait_for
from tidelock.kube.client import RESERVATIONS

_ROOT = Path(__file__).parents[2]
_KINDS = "reservations,reservationgroups,reservationschedules,reservationquotas,reservationquotes,waterlevels"
SAMPLES = _ROOT / "manifests" / "samples"


def install_crds(cluster: Cluster) -> None:
    """Apply crds/ and wait until all kinds are served. A second call does no harm.

    For the first Reservation the API server compiles the validation rules, which takes seconds: longer than
    some clients of tests wait for an answer.
    """
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(_ROOT / "crds"))

    def served() -> bool:
        try:
            cluster.kubectl("get", _KINDS, "--all-namespaces")
        except DevClusterError:  # a definition is established before its kind is discovered and served
            return False
        return True

    wait_for(served, what="the custom resources to be served")
    Api(cluster.kubeconfig).create(f"{RESERVATIONS.collection('default')}?dryRun=All", reservation())
