"""The Lease of an installation, which the fence against former leaders reads."""

from contextlib import suppress

from cluster.api import Api, RefusedError
from devcluster.identity import SYSTEM_NAMESPACE
from tidelock.kube.lease import LEASES
from tidelock.settings import Settings

LEASE = LEASES.item(Settings().lease_name, SYSTEM_NAMESPACE)


def forget_lease(api: Api) -> None:
    """Remove the Lease. The fence would refuse operators that other tests start without an election."""
    with suppress(RefusedError):
        api.delete(LEASE)
