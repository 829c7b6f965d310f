"""Clusters that tests share rest while no test of a worker uses them.

An API server takes some percent of a core even without any request, and a worker has several of them.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from devcluster import LocalCluster

_shared: dict[str, LocalCluster] = {}
_resting: set[str] = set()


@contextmanager
def shared(fixture: str, cluster: LocalCluster) -> Iterator[LocalCluster]:
    """Let the cluster of a fixture rest between the files that use it. It ends with the context."""
    with cluster:
        _shared[fixture] = cluster
        try:
            yield cluster
        finally:
            del _shared[fixture]
            _resting.discard(fixture)


def wake(fixtures: Collection[str]) -> None:
    """Wake the clusters of these fixtures, and wait until they answer."""
    for name in _resting & set(fixtures):
        components = _shared[name].components.values()
        for each in components:
            each.thaw()
        for each in components:
            each.wait_healthy()
        _resting.remove(name)


def rest() -> None:
    """Freeze all clusters that are shared."""
    for name in _shared.keys() - _resting:
        for each in _shared[name].components.values():
            each.freeze()
        _resting.add(name)
