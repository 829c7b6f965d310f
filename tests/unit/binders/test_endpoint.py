"""The address under which clients find the leader."""

import asyncio

import pytest

from tidelock.binders.endpoint import Endpoint
from tidelock.kube.errors import Forbidden, NotFound
from tidelock.model.meta import Key
from unit.binders.cluster_store import ClusterStore

SLICE = "/apis/discovery.k8s.io/v1/namespaces/system/endpointslices/binders"


@pytest.mark.parametrize(("address", "family"), [("10.0.0.7", "IPv4"), ("fd00::7", "IPv6")])
async def test_the_first_leader_creates_the_endpoint_slice_and_the_next_changes_it(
    address: str, family: str
) -> None:
    api = ClusterStore()
    endpoint = Endpoint(api, Key("system", "binders"), address, 8443)
    api.errors = [NotFound("none yet", status=404)]
    await endpoint.announce()
    made = api.objects[SLICE]
    assert (made["addressType"], made["endpoints"][0]["addresses"]) == (family, [address])
    assert made["ports"] == [{"name": "https", "port": 8443, "protocol": "TCP"}]
    assert made["metadata"]["labels"]["kubernetes.io/service-name"] == "binders"

    await endpoint.announce()
    ((path, patch),) = api.patches
    assert (path, patch["endpoints"]) == (SLICE, made["endpoints"])


async def test_a_service_leads_to_the_leader_again_after_an_error_and_a_change_by_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = ClusterStore()
    endpoint = Endpoint(api, Key("system", "binders"), "10.0.0.7", 8080, "web")
    api.errors = [Forbidden("not yet", status=403), NotFound("none yet", status=404)]
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise asyncio.CancelledError

    monkeypatch.setattr("tidelock.binders.endpoint.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await endpoint.keep()
    assert api.objects[SLICE]["ports"] == [{"name": "web", "port": 8080, "protocol": "TCP"}]
    assert [path for path, _ in api.patches] == [SLICE]
    assert pauses[0] < pauses[1] == pauses[2]


async def test_without_an_address_the_endpoint_slice_is_left_alone() -> None:
    api = ClusterStore()
    before = dict(api.objects)
    await Endpoint(api, Key("system", "binders"), "", 8443).announce()
    assert (api.objects, api.patches) == (before, [])
