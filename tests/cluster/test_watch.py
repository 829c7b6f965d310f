"""Lists and watches, on a real API server.

It needs an API server that ends watches, compacts versions and sends bookmarks.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import msgspec
import pytest

from devcluster import Cluster, LocalCluster, start_cluster
from tidelock.kube.client import ApiResource, KubeClient
from tidelock.kube.config import load_connection
from tidelock.kube.watch import Reflector, WatchSettings
from unit.kube.following import Journal, Thing

DEFAULTS = WatchSettings()
CONFIG_MAPS = ApiResource("", "v1", "configmaps", "ConfigMap")


class Follower:
    """A reflector of the config maps in a namespace, and a client that changes them."""

    def __init__(self, client: KubeClient, namespace: str, settings: WatchSettings) -> None:
        self._client = client
        self._collection = CONFIG_MAPS.collection(namespace)
        self._namespace = namespace
        self.journal = Journal()
        self.reflector: Reflector[Thing] = Reflector(
            client,
            CONFIG_MAPS,
            msgspec.json.Decoder(Thing).decode,
            self.journal,
            namespace=namespace,
            label_selector="followed=yes",
            settings=settings,
            rng=Random(1),  # noqa: S311 -- it spreads retries
            sleep=self._sleep,
        )
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def create(self, name: str) -> Thing:
        body = {"metadata": {"name": name, "labels": {"followed": "yes"}}}
        return msgspec.json.decode(await self._client.create(self._collection, body), type=Thing)

    async def label(self, name: str, **labels: str) -> Thing:
        path = CONFIG_MAPS.item(name, self._namespace)
        return msgspec.json.decode(
            await self._client.patch(path, {"metadata": {"labels": labels}}), type=Thing
        )

    async def delete(self, name: str) -> None:
        await self._client.delete(CONFIG_MAPS.item(name, self._namespace))

    async def receives(self, lines: list[str]) -> None:
        """Wait until the event handlers have received exactly these events."""
        await eventually(lambda: len(self.journal.lines) >= len(lines))
        assert self.journal.lines == lines

    async def holds(self, things: list[Thing]) -> None:
        """Wait until the reflector's store has exactly these objects."""
        await eventually(lambda: {*map(str, self.reflector.store.values())} == {*map(str, things)})

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.may_go_on.wait()


async def eventually(reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not reached():  # noqa: ASYNC110 -- no event signals it
            await asyncio.sleep(0.005)


@asynccontextmanager
async def following(
    kubeconfig: Path, namespace: str, settings: WatchSettings = DEFAULTS
) -> AsyncIterator[Follower]:
    async with KubeClient(load_connection(kubeconfig), user_agent="tidelock-test") as client:
        follower = Follower(client, namespace, settings)
        run = asyncio.create_task(follower.reflector.run())
        try:
            await asyncio.wait_for(follower.reflector.synced.wait(), 30)
            yield follower
        finally:
            run.cancel()
            await asyncio.wait((run,))


@pytest.fixture
def private(tmp_path: Path) -> Iterator[LocalCluster]:
    """Yield a cluster that a test may break."""
    with start_cluster(tmp_path, controller_manager=False, kwok=False) as cluster:
        yield cluster


async def test_changes_arrive_one_by_one(controlplane: Cluster, namespace: str) -> None:
    async with following(controlplane.kubeconfig, namespace) as follower:
        added = await follower.create("a")
        changed = await follower.label("a", color="blue")
        await follower.delete("a")
        again = await follower.create("a")

        await follower.receives(["synced", f"+{added}", f"{added}>{changed}", f"-{changed}", f"+{again}"])
        assert follower.reflector.relists == 1


async def test_an_object_that_leaves_the_selector_is_removed(controlplane: Cluster, namespace: str) -> None:
    async with following(controlplane.kubeconfig, namespace) as follower:
        added = await follower.create("a")
        await follower.label("a", followed="no")
        back = await follower.label("a", followed="yes")

        await follower.receives(["synced", f"+{added}", f"-{added}", f"+{back}"])


async def test_a_list_in_small_pages_is_complete(controlplane: Cluster, namespace: str) -> None:
    async with following(controlplane.kubeconfig, namespace) as writer:
        created = [await writer.create(f"item-{number:02}") for number in range(20)]

    settings = WatchSettings(page_limit=7)
    async with following(controlplane.kubeconfig, namespace, settings) as follower:
        await follower.receives([*(f"+{thing}" for thing in created), "synced"])


async def test_bookmarks_move_the_resume_point(controlplane: Cluster, namespace: str) -> None:
    """The server sends a bookmark before it ends a watch regularly. No event is lost or repeated."""
    settings = WatchSettings(shortest_watch=1.0, longest_watch=2.0)
    async with following(controlplane.kubeconfig, namespace, settings) as follower:
        created: list[Thing] = []
        while follower.reflector.watch_restarts < 4:
            created.append(await follower.create(f"item-{len(created)}"))
            await asyncio.sleep(0.1)

        await follower.receives(["synced", *(f"+{thing}" for thing in created)])
        assert follower.reflector.relists == 1


async def test_a_restart_of_the_api_server_loses_and_repeats_nothing(private: LocalCluster) -> None:
    async with following(private.kubeconfig, "default") as follower:
        kept, changing = await follower.create("kept"), await follower.create("changing")
        await follower.receives(["synced", f"+{kept}", f"+{changing}"])

        await asyncio.to_thread(private.apiserver.kill)
        await asyncio.to_thread(private.apiserver.start)
        changed = await follower.label("changing", color="blue")
        added = await follower.create("added")

        await follower.holds([kept, changed, added])
        told = [line for line in follower.journal.lines if line != "synced"]
        assert told == [f"+{kept}", f"+{changing}", f"{changing}>{changed}", f"+{added}"]


async def test_an_object_that_was_deleted_between_two_watches_is_removed(private: LocalCluster) -> None:
    """A restarted API server has no history and cannot resume a watch, so the reflector must list again."""
    async with following(private.kubeconfig, "default") as follower:
        kept = await follower.create("kept")
        gone = await follower.create("gone")
        old = await follower.create("recreated")
        await follower.holds([kept, gone, old])

        follower.may_go_on.clear()
        await asyncio.to_thread(private.apiserver.kill)
        await asyncio.to_thread(private.apiserver.start)
        await follower.delete("gone")
        await follower.delete("recreated")
        new = await follower.create("recreated")
        await asyncio.to_thread(private.apiserver.kill)
        await asyncio.to_thread(private.apiserver.start)
        follower.may_go_on.set()

        await follower.holds([kept, new])
        assert follower.journal.lines[4:] == [f"-{old}", f"+{new}", f"-{gone}", "synced"]
        assert follower.reflector.relists == 2


async def test_a_frozen_api_server_is_noticed_by_its_silence(private: LocalCluster) -> None:
    async with following(private.kubeconfig, "default", WatchSettings(silence=0.5)) as follower:
        added = await follower.create("a")
        await follower.holds([added])

        private.apiserver.freeze()
        restarts = follower.reflector.watch_restarts
        await eventually(lambda: follower.reflector.watch_restarts > restarts)
        private.apiserver.thaw()

        changed = await follower.label("a", color="blue")
        await follower.receives(["synced", f"+{added}", f"{added}>{changed}"])
