"""Run operators through a storm of faults, and print each delivery: python -m world SEED [SECONDS]."""

import sys

from world.storm import run_storm


def main(seed: str, seconds: str = "180") -> None:
    """Print the history of a seed, the faults that took effect, and the errors that no task handled."""
    world = run_storm(seed, float(seconds))
    for line in world.history.lines():
        print(line)
    print(*(f"{name}: {times}" for name, times in sorted(world.counts.items())), sep=", ")
    print(*world.unhandled(), sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
