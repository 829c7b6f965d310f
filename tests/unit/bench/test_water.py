import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.command import add_json
from bench.record import Record
from bench.water import _report, _timing, main, spreads
from replay.exporter import SECONDS
from replay.pool import Pool
from replay.pool_history import PodLifetime, PodLifetimes, PoolHistory
from tidelock.simulation.engine import Simulation
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.world import STEP
from tidelock.simulation.worlds import Setting, synthetic_load, world_of
from unit.load.patches import PatchApi

SECONDS_A_STEP = 4.0
STEPS = 72
WARM_UP = 10
BEGAN = 1_800_000_000.0  # a slot of each window begins


def replayed(policy: str, *, row: int | None = None) -> PoolHistory:
    """Return the history of a pool on which a policy placed all pods, or on which all are on one node."""
    setting = Setting(nodes=6, workloads=12, steps=STEPS, life=20 * STEP)
    world = world_of("small", synthetic_load(12, STEPS, 0), setting, 0)
    quicker = SECONDS_A_STEP / STEP
    quick = replace(world, arrives=world.arrives * quicker, lives=world.lives * quicker, step=SECONDS_A_STEP)
    run = Simulation(quick, POLICIES[policy], timing=_timing(SECONDS_A_STEP)).run()
    pool = Pool(PatchApi(), world, "pool")
    lifetimes = PodLifetimes(pool)
    for number in np.argsort(run.bound, kind="stable").tolist():
        if np.isfinite(run.bound[number]):
            created = BEGAN + float(quick.arrives[number])
            on = int(run.node[number]) if row is None else row
            ended = BEGAN + float(run.bound[number] + quick.lives[number])
            lifetimes.of[f"pod-{number}"] = PodLifetime(int(quick.workload[number]), on, created, ended)
    history = PoolHistory(lifetimes, cpu=list(run.cpu), pending=run.pending.tolist())
    history.began, history.ended = BEGAN, BEGAN + (STEPS - 1) * SECONDS_A_STEP
    return history


@pytest.mark.parametrize("policy", ["default", "shipped"])
def test_the_same_choices_give_the_same_deviation(policy: str) -> None:
    live, simulated = spreads(replayed(policy), policy, WARM_UP)

    assert live == pytest.approx(simulated, rel=1e-6)


def test_another_placement_gives_another_deviation() -> None:
    live, simulated = spreads(replayed("default", row=0), "default", WARM_UP)

    assert live > 2 * simulated


def test_a_pod_counts_when_its_rate_covers_the_range_and_a_reading_is_seconds_old() -> None:
    timing = _timing(SECONDS_A_STEP)

    assert (timing.interval, timing.span, timing.lag) == (4.0, float(SECONDS), 1.0)
    assert timing.span - SECONDS_A_STEP < timing.settling < timing.span
    assert _timing(30.0).lag == 0.0


def test_worlds_are_reported_with_their_mean_difference(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser(prog="bench.water")
    add_json(parser, [])
    record = Record.begin(parser.parse_args([]))
    histories = {policy: [replayed(policy), replayed(policy)] for policy in ("default", "shipped")}

    _report(histories, WARM_UP, record)

    last = capsys.readouterr().out.splitlines()[-2]
    assert last.split()[:4] == ["ratio", "of", "both", "mean"]
    assert last.endswith("0.00 (0.00 to 0.00) %")
    assert record.figures["by-requests.live"].rounds == 2
    assert record.figures["by-requests.distance-of-the-mean"].met
    assert record.figures["ratio-of-both.live"].median < 1


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit):
        main(["--worlds", "none", "--json", str(tmp_path / "water.json")])
