"""A node for which the program fails costs no other object anything."""

from operator import attrgetter
from typing import Any

import pytest

from builders import NAMESPACE, node, pod
from tidelock.cluster.cache import CacheObserver
from tidelock.cluster.index.pod_counts import PodCountQuery
from tidelock.cluster.index.selection import Choice, Selection
from tidelock.model.failures import StateLostError
from tidelock.model.nodes import Node
from unit.scheduler.failing import Fed
from unit.scheduler.machinery import Core

EVERY = PodCountQuery((Choice(frozenset({NAMESPACE}), Selection(())),))


class Plugin(CacheObserver):
    """A plugin that follows the nodes, and fails for the node of a name before or after other plugins."""

    def __init__(self) -> None:
        self.name = ""
        self.rows: list[str] = []

    def put_node(self, row: int, old: Node | None, new: Node) -> None:
        del row
        if new.name == self.name:
            raise LookupError("planted")
        if old is None:
            self.rows.append(new.name)

    def drop_node(self, row: int, end: int) -> None:
        del end
        if self.rows[row] == self.name:
            raise LookupError("planted")
        self.rows[row] = self.rows[-1]
        self.rows.pop()


def sums(core: Core) -> list[Any]:
    """Return the sums of each node."""
    columns, cache = core.decider.columns, core.cache
    rows = {name: columns.requested[row].tolist() for name, row in sorted(columns.row_of.items())}
    counts = {name: int(cache.neighbours(EVERY)[row]) for name, row in sorted(columns.row_of.items())}
    return [rows, counts, [each.name for each in columns.nodes]]


def test_a_node_for_which_a_plugin_fails_is_unchanged_and_is_processed_later() -> None:
    """Regression: its pods were never counted, as the node counted as known by then."""
    core = Fed(node("node-a", cpu="4"))
    first, last = Plugin(), Plugin()
    core.cache.add_observer(first)
    core.cache.add_observer(last)
    for name in ("node-a", "bad"):
        core.add(pod(f"on-{name}", node_name=name, requests={"cpu": "1"}))
    core.deliver("lock", nodeName="bad")
    before = sums(core)
    last.name = "bad"
    for _ in range(2):
        with pytest.raises(LookupError):
            core.event_handlers.nodes.upsert(None, node("bad", cpu="4"))
        assert sums(core) == before
        assert first.rows == last.rows == ["node-a"]
    last.name = ""
    core.event_handlers.nodes.upsert(None, node("bad", cpu="4"))
    assert core.used("bad") == 1000

    before = sums(core)
    last.name = "bad"
    with pytest.raises(LookupError):
        core.event_handlers.nodes.upsert(node("bad", cpu="4"), node("bad", cpu="1"))
    assert sums(core) == before
    assert core.decider.columns.nodes[1].allocatable["cpu"] == 4000


def test_a_node_that_can_only_be_removed_in_part_ends_the_process() -> None:
    core, plugin = Fed(node("node-a"), node("bad")), Plugin()
    core.cache.add_observer(plugin)
    plugin.name = "bad"
    with pytest.raises(StateLostError, match="node bad can't be taken out of the columns: planted"):
        core.event_handlers.nodes.remove(node("bad"))


@pytest.mark.parametrize("part", ["images.drop", "reserve_pods._count", "pod_counts.count"])
def test_a_node_that_cannot_be_removed_stays_as_it_was(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    core = Fed(node("node-a", cpu="4"), node("node-b", cpu="4"))
    core.add(pod("a", node_name="node-a", requests={"cpu": "1"}))
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "main"}]}}
    core.deliver("lock", nodeName="node-a", resources=None, template=template)
    core.steps()
    before = sums(core)
    *owner, method = part.split(".")
    fails: Any = lambda *_: 1 / 0  # noqa: E731
    with monkeypatch.context() as patch:
        patch.setattr(attrgetter(".".join(owner))(core.cache) if owner else core.cache, method, fails)
        with pytest.raises(ZeroDivisionError):
            core.event_handlers.nodes.remove(node("node-a"))
    assert sums(core) == before
    core.event_handlers.nodes.remove(node("node-a"))
    assert list(core.decider.columns.row_of) == ["node-b"]
