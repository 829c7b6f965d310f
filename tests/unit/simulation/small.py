"""Small worlds for tests of the simulation, and their runs."""

from functools import lru_cache

from tidelock.simulation.engine import Run, Simulation
from tidelock.simulation.measuring import NO_FAULTS, MetricsFaults
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.world import SimulatedWorld
from tidelock.simulation.worlds import Setting, synthetic_load, world_of

HOUR = 3600.0
STEPS = 30


@lru_cache
def world(seed: int = 0, *, steps: int = STEPS) -> SimulatedWorld:
    """Return six nodes of 16 cores with pods that live for about an hour, for two hours and a half."""
    load = synthetic_load(100, steps, seed)
    return world_of("small", load, Setting(nodes=6, workloads=12, life=HOUR, steps=steps), seed)


@lru_cache
def simulate(policy: str, seed: int = 0, faults: MetricsFaults = NO_FAULTS) -> Run:
    """Return the run of a seed's small world, which is cached and must not be changed."""
    return Simulation(world(seed), POLICIES[policy], seed, faults=faults).run()
