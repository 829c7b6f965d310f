"""The operator in surroundings that some clusters have: OpenShift's user, no DNS, little of everything."""

import asyncio
from collections.abc import Iterator

import pytest

from devcluster.identity import SYSTEM_NAMESPACE
from e2e.judging import Judgement
from e2e.site import EXTENDER, HA, Image, Site
from e2e.stream import streaming
from faults.history import Change, Json
from installation.scc import UIDS

pytestmark = pytest.mark.timeout(900)

_GRACE = 30  # seconds, as the pod's default
_NOWHERE = "192.0.2.1"  # an address of documentation, which no host has


def surroundings(arguments: list[str]) -> Json:
    """Return the spec of a pod with all of them at once. `arguments` are those that are installed."""
    command = ["sh", "-c", 'ulimit -Sn 1024 && exec tidelock "$@"', "sh", *arguments]
    variables = {"HOME": "/nonexistent", "LANG": "C", "LC_ALL": "C"}
    container = {
        "name": "tidelock",
        "command": command,
        "args": None,
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": {"limits": {"cpu": "1"}},
    }
    return {
        "securityContext": {"runAsUser": UIDS.start + 7, "runAsGroup": 0, "fsGroup": UIDS.start},
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": [_NOWHERE]},
        "containers": [container],
    }


@pytest.fixture
def surrounded(installed: Site, image: Image) -> Iterator[Site]:
    (container,) = installed.operators()[0]["spec"]["containers"]
    installed.install(image, HA, EXTENDER, pod=surroundings(container["args"]))
    yield installed
    installed.kubectl("delete", "deployment/tidelock", f"--namespace={SYSTEM_NAMESPACE}")  # its command too
    installed.install(image, HA, EXTENDER)


def test_all_surroundings_at_once(surrounded: Site) -> None:
    leader = surrounded.until("a leader", surrounded.leader)
    place = f"--namespace={SYSTEM_NAMESPACE}"
    limits, files = 'grep "open files" /proc/1/limits', "touch /file 2>&1; head -1 /etc/resolv.conf"
    script = f"id -u; id -g; {limits}; cat /proc/1/comm; {files}"
    facts = surrounded.kubectl("exec", leader, place, "--", "sh", "-c", script).splitlines()
    print(f"\n{leader} runs with {facts}")  # noqa: T201 -- the output is the evidence
    assert facts[:2] == [str(UIDS.start + 7), "0"]
    assert facts[2].split()[3] == "1024"
    assert "Read-only file system" in facts[4]
    assert facts[5] == f"nameserver {_NOWHERE}"
    with surrounded.namespace("e2e-surroundings") as namespace:
        judged, ended = asyncio.run(_ended(surrounded, namespace, leader))
    print("\n".join(f"  {line}" for line in judged.lines()))  # noqa: T201
    print(f"  {leader} ended with status {ended[0]}, {ended[1]:.1f} s after its deletion")  # noqa: T201
    assert judged.violations == []
    assert ended[0] == 0
    assert ended[1] < _GRACE


async def _ended(site: Site, namespace: str, leader: str) -> tuple[Judgement, tuple[int, float]]:
    """Delete the leader under a stream. Return the judgement, its exit status and its seconds."""
    async with (
        site.recorded() as (client, record),
        streaming(client, record, namespace, site.workers()) as stream,
    ):
        await asyncio.sleep(5)
        await asyncio.to_thread(
            site.kubectl, "delete", "pod", leader, f"--namespace={SYSTEM_NAMESPACE}", "--wait=false"
        )
        await stream.until("the leader has ended", lambda: _end_of(record.changes, leader))
        await asyncio.sleep(10)
    end = _end_of(record.changes, leader)
    assert end is not None
    return stream.judged(), end


def _end_of(changes: list[Change], name: str) -> tuple[int, float] | None:
    """Return the exit status of a pod's container, and the seconds from its deletion until it was known."""
    mine = [each for each in changes if each.kind == "pods" and each.name == name]
    asked = next((each.at for each in mine if "deletionTimestamp" in each.state["metadata"]), None)
    for each in mine:
        for container in each.state["status"].get("containerStatuses", ()):
            ended = container["state"].get("terminated")
            if ended is not None and asked is not None:
                return ended["exitCode"], each.at - asked
    return None
