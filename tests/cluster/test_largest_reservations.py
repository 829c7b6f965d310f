"""The largest Reservations stay within the API server's run-time cost limit for validation rules.

It needs an API server that limits the cost of validation rules at run time.
"""

from typing import Any

import pytest

from cluster.api import Api, Manifest, RefusedError
from cluster.crds import install_crds
from cluster.plain_reservations import reservation, templated
from cluster.stored import Stored
from devcluster import Cluster

LONG_DOMAIN = ".".join(4 * [60 * "d"])
VALUE = 63 * "v"


@pytest.fixture(scope="module")
def api(controlplane: Cluster) -> Api:
    install_crds(controlplane)
    return Api(controlplane.kubeconfig)


def key(number: int) -> str:
    """Return one of many long keys."""
    return f"{LONG_DOMAIN}/k{number:062}"


def labels(count: int) -> dict[str, str]:
    return {key(number): VALUE for number in range(count)}


def expressions(count: int, values: int) -> list[dict[str, Any]]:
    return [{"key": key(number), "operator": "In", "values": values * [VALUE]} for number in range(count)]


def many_owners() -> Manifest:
    selector = {"matchLabels": labels(2), "matchExpressions": expressions(2, values=64)}
    return reservation(owners=16 * [{"selector": selector}])


def many_containers() -> Manifest:
    amounts = {key(number): 14 * "9" for number in range(16)}
    container = {"name": "web", "resources": {"requests": amounts, "limits": amounts}}
    return templated(containers=32 * [container], initContainers=16 * [container], nodeSelector=labels(64))


def many_nodes() -> Manifest:
    terms = 4 * [{"matchExpressions": expressions(16, values=256)}]
    return reservation(
        affinity={
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        }
    )


@pytest.mark.parametrize("make", [many_owners, many_containers, many_nodes])
def test_the_largest_reservations_pass_validation_in_all_phases(api: Api, namespace: str, make: Any) -> None:
    stored = Stored(api, namespace, make())
    stored.change_status(phase="Active")
    stored.change_spec(priority=1)
    stored.change_status(phase="Expired")
    with pytest.raises(RefusedError, match="is final"):
        stored.change_spec(priority=2)
