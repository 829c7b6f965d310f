"""Play the demo: python -m demo.

In the cluster that TIDELOCK_KUBECONFIG names, if it is set; else in kind, where a Docker engine answers; else
on a control plane that is built once with Go. With --kubelets it is the
latter, and its nodes have real kubelets.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from demo.stage import installed, own_control_plane
from demo.story import CHAPTERS
from demo.world import NAMESPACE, StepError, World
from devcluster import Cluster, DevClusterError, attach, attached, kind
from devcluster.provider import VARIABLE, Provider, choose
from tidelock.kube.client import KubeClient
from tidelock.kube.config import load_connection


async def play(cluster: Cluster, workers: list[str]) -> None:
    """Play all chapters; raises StepError at the first that goes differently."""
    async with KubeClient(load_connection(cluster.kubeconfig), user_agent="tidelock-demo") as client:
        world = World(cluster, client)
        await world.measure(workers)
        print("\nThree workers:")
        await world.show()
        for number, (title, chapter) in enumerate(CHAPTERS, start=1):
            print(f"\n{number}. {title}.")
            await chapter(world, workers)


def _stage(folder: Path, *, kubelets: bool) -> AbstractContextManager[tuple[Cluster, list[str]]]:
    if kubelets:
        return own_control_plane(folder, kubelets=True)
    if (cluster := attached()) is not None:
        return installed(cluster)
    if choose(os.environ.get(VARIABLE)) is Provider.KIND:
        kubeconfig = folder / "kubeconfig"
        kind.up(kubeconfig)
        return installed(attach(kubeconfig))
    return own_control_plane(folder)


def main(arguments: Sequence[str]) -> int:
    """Set up, play, take down; 0 if the story went as it should."""
    parser = argparse.ArgumentParser(prog="demo", description="Play the story of a lock.")
    parser.add_argument(
        "--kubelets",
        action="store_true",
        help="on a control plane of its own, whose nodes have real kubelets",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tidelock-demo-") as folder:
        try:
            with _stage(Path(folder), kubelets=options.kubelets) as (cluster, workers):
                cluster.kubectl("create", "namespace", NAMESPACE)
                try:
                    asyncio.run(play(cluster, workers))
                finally:
                    cluster.kubectl("delete", "namespace", NAMESPACE, "--wait=false")
        except (StepError, DevClusterError) as error:
            print(f"\nFAILED: {error}", file=sys.stderr)
            return 1
    print("\nThe story went as it should.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
