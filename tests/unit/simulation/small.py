"""Small worlds for tests of the simulation, and how they are played."""

from functools import lru_cache

from tidelock.simulation.engine import Run, Simulation
from tidelock.simulation.measuring import NO_FAULTS, Faults
from tidelock.simulation.policies import POLICIES
from tidelock.simulation.world import World
from tidelock.simulation.worlds import Setting, synthetic_load, world_of

STEPS = 48


@lru_cache
def world(seed: int = 0, *, steps: int = STEPS) -> World:
    """Give eight nodes of 16 cores and pods of about an hour."""
    load = synthetic_load(100, steps, seed)
    return world_of("small", load, Setting(nodes=8, workloads=16, life=3600.0, steps=steps), seed)


def play(policy: str, of: World | None = None, *, seed: int = 0, faults: Faults = NO_FAULTS) -> Run:
    return Simulation(of or world(), POLICIES[policy], seed, faults=faults).run()
