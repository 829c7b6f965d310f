"""Compares the API server in memory with a real one: python -m world.differential --sequences 1000."""

import argparse
import secrets
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path

from cluster.crds import install_crds
from devcluster import start_cluster
from world.differential.compare import compare
from world.differential.differences import DIFFERENCES, NOT_DRAWN
from world.differential.sides import Real


def main() -> int:
    """Run the sequences, print each difference, and return 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=100, help="number of sequences")
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument(
        "--kubeconfig", type=Path, help="a real server with the CRDs. Otherwise one is started"
    )
    parser.add_argument(
        "--most", type=int, default=20, help="stop after this many sequences with differences"
    )
    parser.add_argument("--each", type=int, default=2, help="differences to print of a sequence")
    options = parser.parse_args()
    with ExitStack() as stack:
        kubeconfig = options.kubeconfig
        if kubeconfig is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            cluster = stack.enter_context(start_cluster(folder, controller_manager=False, kwok=False))
            install_crds(cluster)
            kubeconfig = cluster.kubeconfig
        return _run(stack.enter_context(closing(Real(kubeconfig))), options)


def _run(real: Real, options: argparse.Namespace) -> int:
    prefix, begin, different, count = f"d{secrets.token_hex(3)}", time.monotonic(), 0, 0
    for seed in range(options.first, options.first + options.sequences):
        count += 1
        found = compare(seed, real, prefix)
        different += bool(found)
        for each in found[: options.each]:
            print(each)
        if different >= options.most:
            break
    print(f"{count} sequences, {different} with differences, {time.monotonic() - begin:.1f} s")
    print("Differences that are left, by name:")
    for row in DIFFERENCES:
        print(f"  {row.name}: {row.reason}")
    print("Parts that are not drawn:")
    for name, reason in NOT_DRAWN.items():
        print(f"  {name}: {reason}")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
