"""The same seed gives the same history, byte for byte."""

import os
import subprocess
import sys

from world.operator import import_all
from world.storm import run_storm

SECONDS = 90.0
SEEDS = ("1", "2", "3", "4")

# Sends a set of texts in its own order, as no program may.
UNORDERED = """
import asyncio
from world import World

async def converse(reader, writer):
    await reader.read()
    writer.close()

async def send():
    reader, writer = await asyncio.open_connection("server", 80)
    for text in {f"text-{number}" for number in range(50)}:
        writer.write(text.encode())
    writer.close()
    await writer.wait_closed()

async def main():
    await world.host("server").spawn(asyncio.start_server(converse, port=80))
    await world.host("client").spawn(send())
    await asyncio.sleep(1)

world = World(1)
world.run(main())
print(world.history.digest())
"""


def python(*arguments: str, hash_seed: str) -> str:
    """Return the output of another Python process."""
    run = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


def test_other_processes_with_other_hash_seeds_have_the_same_histories() -> None:
    """Strings, objects and addresses have other hashes there, so a set of them would have another order."""
    storms = ("-m", "world", *SEEDS, "--seconds", str(SECONDS), "--digest")
    one, other = (python(*storms, hash_seed=hash_seed).splitlines() for hash_seed in ("1", "2"))
    import_all()
    worlds = {seed: run_storm(seed, SECONDS) for seed in reversed(SEEDS)}
    ours = [f"{seed} {worlds[seed].history.digest()} {len(worlds[seed].history)}" for seed in SEEDS]
    assert one == other == ours
    for world in worlds.values():
        assert len(world.history) > 300
        assert sum(world.counts.values()) > 3
        assert world.unhandled() == []


def test_a_program_that_depends_on_the_order_of_a_set_is_found() -> None:
    one, other, again = (python("-c", UNORDERED, hash_seed=hash_seed) for hash_seed in ("1", "2", "1"))
    assert one == again != other


def test_another_seed_has_another_history() -> None:
    digests = {run_storm(seed, 30.0).history.digest() for seed in SEEDS}
    assert len(digests) == len(SEEDS)


def test_the_second_run_of_a_process_has_the_same_history() -> None:
    """Caches of modules, and the memory of the first run, must not matter."""
    first, _, second = (run_storm(seed, 60.0).history.digest() for seed in ("1", "2", "1"))
    assert first == second
