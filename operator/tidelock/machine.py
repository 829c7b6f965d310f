"""The machine of a process, as far as it is neither a file nor a socket: clocks, chance, threads, the end.

A process gets all of these from one place, so a simulation can run it on a machine of its own.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tidelock.clock import Clock, SystemClock
from tidelock.kube.second_loop import LoopThread, SecondLoop
from tidelock.running import end_within


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The parts of a machine that a process uses.

    Attributes:
        clock: the time of day, and a clock for durations.
        rng: random generator for pauses.
        second_loop: makes an event loop in a thread of a name.
        end_within: ends the process within so many seconds, by force if necessary.

    """

    clock: Clock = field(default_factory=SystemClock)
    rng: Random = field(default_factory=Random)
    second_loop: Callable[[str], SecondLoop] = LoopThread
    end_within: Callable[[float], None] = end_within


MACHINE = Machine()
"""The machine on which this process runs."""
