"""A world that replays: the production operator on virtual time and in-memory sockets, drawn from a seed.

The seam is low. The world replaces the event loop's clock and order, sockets, threads and sources of chance.
Everything above them is the program that ships. `World` is the interface, and `limits` lists the parts of
reality that the world lacks.
"""

from world.faults import Effect, Happening, Treatment, Weather, death_at
from world.host import Host
from world.loop import BudgetExceededError, DeadlockError
from world.network import Latency, Network
from world.world import World

__all__ = [
    "BudgetExceededError",
    "DeadlockError",
    "Effect",
    "Happening",
    "Host",
    "Latency",
    "Network",
    "Treatment",
    "Weather",
    "World",
    "death_at",
]
