"""Two operators that lead side by side are seen, each by the Lease that the other renews."""

import asyncio
import logging
import math
from typing import Any

import pytest

from tidelock.kube.client import KubeClient
from tidelock.kube.lease import LEASES
from tidelock.kube.other_leaders import OtherLeaders, watch_other_leaders
from tidelock.model.meta import Key
from unit.kube.scripted import ScriptedServer, fails, page

OWN = Key("tidelock-system", "tidelock")
SHOP = Key("shop", "tidelock")
PATIENCE = 30.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def lease(namespace: str, version: int, holder: Any = "laptop_1", seconds: Any = 15) -> dict[str, Any]:
    metadata = {"name": "tidelock", "namespace": namespace, "resourceVersion": str(version)}
    return {"metadata": metadata, "spec": {"holderIdentity": holder, "leaseDurationSeconds": seconds}}


async def looks(
    server: ScriptedServer,
    client: KubeClient,
    *lists: list[dict[str, Any]],
    own: Key = OWN,
    apart: float = 10.0,
) -> list[dict[Key, str]]:
    """Return the results of looks at these lists, with some seconds between two."""
    clock = Clock()
    others = OtherLeaders(client, own, clock)
    found = []
    for leases in lists:
        server.replays(page(*leases, version=9))
        found.append(await others.look())
        clock.now += apart
    return found


async def test_a_lease_that_another_process_renews_elsewhere_is_found(
    server: ScriptedServer, client: KubeClient
) -> None:
    """Two operators led for hours, one with the Lease of a kubeconfig's namespace, and nothing said so."""
    own = lease("tidelock-system", 1, "pod_1")
    found = await looks(server, client, [own, lease("shop", 1)], [own, lease("shop", 2)])
    assert found == [{}, {SHOP: "laptop_1"}]
    assert server.asked[0].path == LEASES.collection()
    assert server.asked[0].query["fieldSelector"] == "metadata.name=tidelock"


async def test_a_lease_that_is_no_longer_renewed_is_no_leader(
    server: ScriptedServer, client: KubeClient
) -> None:
    renewed, left = [lease("shop", 1)], [lease("shop", 2)]
    assert await looks(server, client, renewed, left, left, left) == [{}, *[{SHOP: "laptop_1"}] * 2, {}]
    assert await looks(server, client, left, left) == [{}, {}]


@pytest.mark.parametrize("renewed", ["0000-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"])
async def test_the_time_in_a_lease_does_not_count(
    server: ScriptedServer, client: KubeClient, renewed: str
) -> None:
    left = lease("shop", 1)
    left["spec"]["renewTime"] = renewed
    mill = [lease("mill", 1)], [lease("mill", 2)]
    found = await looks(server, client, [left, *mill[0]], [left, *mill[1]])
    assert found == [{}, {Key("mill", "tidelock"): "laptop_1"}]


async def test_a_released_lease_is_no_leader(server: ScriptedServer, client: KubeClient) -> None:
    assert await looks(server, client, [lease("shop", 1)], [lease("shop", 2, holder="")]) == [{}, {}]


async def test_a_lease_that_is_gone_is_forgotten(server: ScriptedServer, client: KubeClient) -> None:
    found = await looks(server, client, [lease("shop", 1)], [lease("shop", 2)], [], [lease("shop", 3)])
    assert found == [{}, {SHOP: "laptop_1"}, {}, {}]


async def test_the_own_lease_is_no_other(server: ScriptedServer, client: KubeClient) -> None:
    renewed = [lease("tidelock-system", 1)], [lease("tidelock-system", 2)]
    assert await looks(server, client, *renewed) == [{}, {}]
    without_election = Key("", "tidelock")
    assert await looks(server, client, *renewed, own=without_election) == [{}, {OWN: "laptop_1"}]


async def test_all_pages_are_read_and_malformed_leases_left_out(
    server: ScriptedServer, client: KubeClient
) -> None:
    others = OtherLeaders(client, OWN, Clock())
    for version in (1, 2):
        server.replays(
            page({"metadata": 7}, lease("a", version, holder=5), version=9, more="next"),
            page(lease("shop", version, "x\n" * 5000, seconds="long"), version=9),
        )
        found = await others.look()
    assert found.keys() == {SHOP}
    assert len(found[SHOP]) == 100
    assert "\n" not in found[SHOP]


async def test_the_log_reports_other_leaders_once_and_their_end(
    server: ScriptedServer, client: KubeClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    observed: list[float] = []
    for leases in ([1, 1], [2, 2], [3, 3], [4, 4]):
        server.replays(page(*(lease(f"n{each}", leases[0]) for each in range(5)), version=9))
    server.replays(page(version=9), fails(403, "Forbidden"), fails(403, "Forbidden"))
    async with asyncio.timeout(PATIENCE):
        watching = asyncio.create_task(
            watch_other_leaders(OtherLeaders(client, OWN), observed.append, period=0.0)
        )
        await server.finished.wait()
        watching.cancel()
    assert observed[:5] == [0, 5, 5, 5, 0]
    assert all(math.isnan(each) for each in observed[5:])
    told = [record for record in caplog.records if record.name.startswith("tidelock")]
    assert [record.message for record in told] == [
        "another operator leads too, so capacity can be given twice",
        "no other operator leads any more",
        "other operators are not looked for",
    ]
    leaders = told[0].__dict__["leaders"]
    assert leaders.startswith("laptop_1 by Lease n0/tidelock, ")
    assert leaders.endswith(", ...")
