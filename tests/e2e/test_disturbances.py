"""The operator loses its leader in each way under a stream of pods: nothing is given twice or lost."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from devcluster.identity import SYSTEM_NAMESPACE
from e2e.judging import Judgement
from e2e.site import OPERATOR, PATIENCE_SECONDS, Site, docker
from e2e.stream import streaming

pytestmark = pytest.mark.timeout(900)

_IN_SYSTEM = f"--namespace={SYSTEM_NAMESPACE}"
_BEFORE, _AFTER = 10.0, 20.0  # seconds of the stream around a disturbance

Disturbance = Callable[[Site, ExitStack], str]
"""Disturbs the operator, and returns a description."""


def undisturbed(site: Site, cleanup: ExitStack) -> str:
    del cleanup
    return f"{site.leader()} leads"


def the_leader_is_deleted(site: Site, cleanup: ExitStack) -> str:
    del cleanup
    leader = site.leader()
    site.kubectl("delete", "pod", leader, _IN_SYSTEM, "--wait=false")
    return f"{leader} was deleted"


def the_leader_is_killed(site: Site, cleanup: ExitStack) -> str:
    """Kill the process on its node, as the kernel does for want of memory."""
    del cleanup
    leader = site.leader()
    pod = site.operator(leader)
    node, container = pod["spec"]["nodeName"], pod["status"]["containerStatuses"][0]["containerID"]
    tasks = docker("exec", node, "ctr", "--namespace=k8s.io", "tasks", "list").splitlines()
    (process,) = (line.split()[1] for line in tasks if line.startswith(container.partition("//")[2]))
    docker("exec", node, "kill", "-KILL", process)
    return f"kill -9 of process {process} of {leader} on {node}"


def its_node_is_drained(site: Site, cleanup: ExitStack) -> str:
    leader = site.leader()
    node = site.operator(leader)["spec"]["nodeName"]
    cleanup.callback(site.kubectl, "uncordon", node)
    flags = ("--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=100s")
    site.kubectl("drain", node, *flags)
    return f"{node} was drained, on which {leader} led"


def its_node_freezes(site: Site, cleanup: ExitStack) -> str:
    """Freeze a node with all its processes, which never learn of it."""
    leader = site.leader()
    node = site.operator(leader)["spec"]["nodeName"]
    cleanup.callback(docker, "unpause", node)
    docker("pause", node)
    site.until("another leader", site.leader, lambda name: name not in ("", leader))
    return f"{node} froze, on which {leader} led; {site.leader()} follows"


def it_is_rolled_out(site: Site, cleanup: ExitStack) -> str:
    del cleanup
    site.kubectl("rollout", "restart", OPERATOR, _IN_SYSTEM)
    site.rolled_out()
    return "rollout restart"


def it_is_rolled_back(site: Site, cleanup: ExitStack) -> str:
    del cleanup
    site.kubectl("rollout", "undo", OPERATOR, _IN_SYSTEM)
    site.rolled_out()
    return "rollout undo"


@pytest.fixture
def namespace(installed: Site) -> Iterator[str]:
    with installed.namespace("e2e-stream") as name:
        yield name


@pytest.mark.parametrize(
    ("disturb", "detailed"),
    [
        (undisturbed, False),
        (the_leader_is_deleted, False),
        (the_leader_is_killed, False),
        (its_node_is_drained, False),
        (it_is_rolled_out, True),
        (it_is_rolled_back, True),
        (its_node_freezes, False),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_nothing_is_given_twice_or_lost(
    installed: Site, namespace: str, cleanup: ExitStack, disturb: Disturbance, detailed: bool
) -> None:
    installed.rolled_out()
    installed.until("a leader", installed.leader)
    described, judged = asyncio.run(_disturbed(installed, namespace, cleanup, disturb))
    _print(f"{disturb.__name__}: {described}", judged, detailed)
    assert judged.violations == []


async def _disturbed(
    site: Site, namespace: str, cleanup: ExitStack, disturb: Disturbance
) -> tuple[str, Judgement]:
    """Disturb the operator under a stream, and return a description and the judgement on the record."""
    workers = site.workers()
    async with (
        site.recorded() as (client, record),
        streaming(client, record, namespace, workers) as stream,
    ):
        await asyncio.sleep(_BEFORE)
        begun = asyncio.get_running_loop().time()
        async with asyncio.timeout(PATIENCE_SECONDS):
            described = await asyncio.to_thread(disturb, site, cleanup)
        seconds = asyncio.get_running_loop().time() - begun
        await asyncio.sleep(_AFTER)
    return f"{described} (took {seconds:.0f} s)", stream.judged()


def _print(title: str, judged: Judgement, detailed: bool) -> None:
    print(f"\n{title}")  # noqa: T201 -- the output is the evidence
    print("\n".join(f"  {line}" for line in judged.lines(detailed)))  # noqa: T201
