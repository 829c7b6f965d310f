"""Run operators through storms of faults, and print each delivery: python -m world SEED... [--seconds 180].

The last lines of a storm are the faults that took effect and the errors that no task handled.
"""

import argparse

from world.storm import run_storm


def main() -> None:
    """Print the histories of some seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="+", help="any texts")
    parser.add_argument("--seconds", type=float, default=180.0, help="of virtual time")
    parser.add_argument("--digest", action="store_true", help="print only a digest of each history")
    asked = parser.parse_args()
    for seed in asked.seeds:
        world = run_storm(seed, asked.seconds)
        if asked.digest:
            print(seed, world.history.digest(), len(world.history))
            continue
        print(*world.history.lines(), sep="\n")
        print(*(f"{name}: {times}" for name, times in sorted(world.counts.items())), sep=", ")
        print(*world.unhandled(), sep="\n")


if __name__ == "__main__":
    main()
