"""Faults of the network, and the count of those that took effect.

A fault is a function that sees each `Happening` and returns a `Treatment` of it, or None. A plan of a run
adds its functions to `Network.interfere`. Faults of other kinds call the methods of `Host` and `Network`, and
count themselves with `World.fired`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from world.host import Host
    from world.loop import Lane


class Effect(Enum):
    """The end of a connection, or of a process beside it."""

    NONE = auto()
    CUT = auto()
    """Both sides learn of a reset. For an attempt to connect: it is refused."""
    SILENCE = auto()
    """Nothing arrives any more, on either side, and neither side learns of it."""
    KILL_SENDER = auto()
    """The sending process dies at this step. Nothing of it is sent."""
    KILL_RECEIVER = auto()
    """The receiving process dies before anything arrives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """A use of the network.

    Attributes:
        kind: a name that is looked up, an attempt to connect, or data that is sent.
        source: name of the host that acts.
        target: name of the host that is meant.
        port: the port of the server.
        size: bytes that are sent.
        data: the bytes themselves.

    """

    kind: Literal["resolve", "connect", "send"]
    source: str
    target: str
    port: int
    size: int = 0
    data: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """A fault that takes effect.

    Attributes:
        name: its name in the counts.
        delay: seconds by which it takes longer.
        effect: its further effect.

    """

    name: str
    delay: float = 0.0
    effect: Effect = Effect.NONE


def death_at(host: "Host", step: int) -> "Callable[[Lane], None]":
    """Return a function for `WorldLoop.before_step` that kills a process before one of its steps."""

    def strike(lane: "Lane") -> None:
        if lane.host is host and host.steps >= step:
            host.kill()

    return strike


Interference = Callable[[Happening], Treatment | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Random faults of all connections between processes, by their probabilities for each use.

    Attributes:
        rng: random generator.
        slow: probability of a delay of up to `longest` seconds.
        cut: probability of a reset, or a refused connection.
        silent: probability that a connection falls silent.
        longest: longest delay in seconds.

    """

    rng: Random
    slow: float = 0.02
    cut: float = 0.002
    silent: float = 0.0005
    longest: float = 5.0

    def __call__(self, happening: Happening) -> Treatment | None:
        """Draw the fault of a use of the network."""
        drawn = self.rng.random()
        if drawn < self.cut:
            return Treatment(name=f"cut {happening.kind}", effect=Effect.CUT)
        if drawn < self.cut + self.silent:
            return Treatment(name=f"silence {happening.kind}", effect=Effect.SILENCE)
        if drawn < self.cut + self.silent + self.slow:
            return Treatment(name=f"slow {happening.kind}", delay=self.longest * self.rng.random() ** 3)
        return None
