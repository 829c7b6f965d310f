"""A run may last for days: its memory follows the cluster, not the number of events."""

from random import Random

import pytest

from tidelock.shadow.observer import Observer
from tidelock.shadow.results import ShadowResults
from unit.shadow.trace import Trace


def churn(rounds: int, seed: int = 0) -> Trace:
    """Replay pods and nodes that come and go, each with a name of its own."""
    rng = Random(seed)  # noqa: S311 -- to be repeated
    trace = Trace({"a": {"cpu": "4"}, "b": {"cpu": "4"}}, leads=(5.0,), seed=seed)
    for number in range(rounds):
        trace.at(2 * number + 1)
        trace.put_node(f"node-{number}", cpu="4")
        for name in (f"one-{number}", f"two-{number}", f"waits-{number}"):
            cpu = "3" if name.startswith("waits") else str(rng.randint(1, 3))
            trace.create(name, cpu, namespace=f"team-{number}-{name[0]}", scheduler=f"scheduler-{number}")
        trace.refuse(f"waits-{number}")
        trace.bind(f"one-{number}", "a")
        trace.bind(f"two-{number}", f"node-{number}")
        if number >= 8:  # some wait long enough to count
            old = number - 8
            for name in (f"one-{old}", f"two-{old}", f"waits-{old}"):
                trace.delete(name)
            trace.drop_node(f"node-{old}")
    return trace


def sizes(observer: Observer) -> dict[str, int]:
    """Return the number of things that are kept of the cluster."""
    return {
        "open": len(observer._open),
        "kinds": observer._open.kind_count,
        "moved": len(observer._replayed._moved),
        "unplaced": len(observer._replayed._unplaced),
        "history": sum(map(len, observer._holds._history._changes.values())),
        "nodes": len(observer._holds._history._changes),
        "ended nominations": len(observer._world.cache.nominator.ended),
        "effects": bool(observer._world._decider.ledger.effects),
    }


def test_what_is_kept_of_the_cluster_does_not_grow_with_time() -> None:
    short, long = churn(15).observer, churn(60).observer
    for name, size in sizes(long).items():
        assert size <= 1.5 * sizes(short)[name] + 10, name


def test_what_is_reported_does_not_grow_with_time() -> None:
    results = churn(60).results
    assert len(results.races.examples) <= 20
    assert len(results.races.pairs) <= 10
    assert len(results.waiting.examples) <= 20
    assert len(results.decisions.examples) <= 20
    assert len(results.decisions.by_scheduler) == 21
    assert sum(sum(each.values()) for each in results.decisions.by_scheduler.values()) == 120


@pytest.mark.parametrize("seed", [0, 7])
def test_the_same_events_and_seed_give_the_same_results(seed: int) -> None:
    def without_times(results: ShadowResults) -> object:
        return (
            results.decisions,
            results.races,
            results.waiting,
            results.levels,
            results.holds,
            results.timeline,
        )

    assert without_times(churn(20, seed).results) == without_times(churn(20, seed).results)
