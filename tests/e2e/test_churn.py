"""Memory and CPU time of leader and standby during churn, against the requests that ship."""

import asyncio
import json
import os
from collections import defaultdict
from typing import NamedTuple

import pytest

from devcluster.identity import SYSTEM_NAMESPACE
from e2e.judging import Judgement
from e2e.site import Site
from e2e.stream import streaming
from tidelock.model.quantities import CPU, parse_quantity

SECONDS = float(os.environ.get("TIDELOCK_CHURN_SECONDS", "600"))
pytestmark = pytest.mark.timeout(SECONDS + 600)

_LOOK = 15.0
_MIB = 2**20
_NANO = 1e9


class Usage(NamedTuple):
    """The figures of a pod's cgroup at a time: bytes in use, and seconds of CPU since its start."""

    at: float
    memory: int
    cpu: float


def test_churn_stays_within_the_requests(installed: Site) -> None:
    leader = installed.until("a leader", installed.leader)
    with installed.namespace("e2e-churn") as namespace:
        judged, used = asyncio.run(_churned(installed, namespace))
    print(f"\n{SECONDS:g} s of churn")  # noqa: T201 -- the output is the evidence
    print("\n".join(f"  {line}" for line in judged.lines()))  # noqa: T201
    assert judged.violations == []
    assert installed.leader() == leader
    for pod in installed.operators():
        name, resources = pod["metadata"]["name"], pod["spec"]["containers"][0]["resources"]
        first, *_, last = used[name]
        most, cores = max(each.memory for each in used[name]), (last.cpu - first.cpu) / (last.at - first.at)
        requested = {each: parse_quantity(each, units) for each, units in resources["requests"].items()}
        print(  # noqa: T201
            f"  {'leader ' if name == leader else 'standby'} {first.memory / _MIB:.0f} MiB at first, "
            f"{most / _MIB:.0f} at most, {last.memory / _MIB:.0f} at last, {cores * 1000:.0f} m of CPU, "
            f"with requests {resources['requests']} and limits {resources['limits']}"
        )
        assert most < requested["memory"]
        assert cores * 1000 < requested[CPU]


async def _churned(site: Site, namespace: str) -> tuple[Judgement, dict[str, list[Usage]]]:
    """Stream for a while, and measure the operator's pods meanwhile."""
    used: defaultdict[str, list[Usage]] = defaultdict(list)
    async with (
        site.recorded() as (client, record),
        streaming(client, record, namespace, site.workers()) as stream,
    ):
        clock = asyncio.get_running_loop().time
        end = clock() + SECONDS
        while clock() < end:
            for name, usage in await asyncio.to_thread(_measured, site):
                used[name].append(Usage(clock(), *usage))
            await asyncio.sleep(_LOOK)
    return stream.judged(), used


def _measured(site: Site) -> list[tuple[str, tuple[int, float]]]:
    """Return memory and CPU time of each operator's pod, as its kubelet reads them from the cgroup."""
    found = []
    for node in site.workers():
        path = f"/api/v1/nodes/{node}/proxy/stats/summary"
        for pod in json.loads(site.kubectl("get", "--raw", path))["pods"]:
            if pod["podRef"]["namespace"] == SYSTEM_NAMESPACE:
                usage = pod["memory"]["workingSetBytes"], pod["cpu"]["usageCoreNanoSeconds"] / _NANO
                found.append((pod["podRef"]["name"], usage))
    return found
