"""The command line of the demo: python -m demo.

It uses the cluster that TIDELOCK_KUBECONFIG names, if it is set. Otherwise it uses kind if a Docker engine
answers, or a control plane that is built once with Go. With --kubelets it uses the latter, with real
kubelets. The story takes place on three workers. Other nodes can be beside them.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from demo.stage import Stage, installed, namespace, own_control_plane
from demo.story import CHAPTERS
from demo.world import NAMESPACE, StepError, World
from devcluster import DevClusterError, WaitTimeoutError, attach, attached, kind
from devcluster.provider import VARIABLE, Provider, choose
from tidelock.kube.client import KubeClient
from tidelock.kube.config import load_connection


async def run(stage: Stage) -> None:
    """Run all chapters. Raises StepError at the first claim that does not hold."""
    cluster, workers, image = stage
    async with KubeClient(load_connection(cluster.kubeconfig), user_agent="tidelock-demo") as client:
        world = World(cluster, client, workers, image)
        await world.prepare()
        print("\nThree workers:")
        await world.show()
        for number, (title, chapter) in enumerate(CHAPTERS, start=1):
            print(f"\n{number}. {title}.")
            await chapter(world, workers)


def _stage(folder: Path, *, kubelets: bool) -> AbstractContextManager[Stage]:
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
    """Set up, run the demo and clean up. The exit status is 0 if all claims hold."""
    parser = argparse.ArgumentParser(prog="demo", description="Run the story of a reservation.")
    parser.add_argument(
        "--kubelets",
        action="store_true",
        help="on a new control plane with real kubelets",
    )
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tidelock-demo-") as folder:
        try:
            with (
                _stage(Path(folder), kubelets=options.kubelets) as stage,
                namespace(stage.cluster, NAMESPACE),
            ):
                asyncio.run(run(stage))
        except (StepError, DevClusterError, WaitTimeoutError) as error:
            print(f"\nFAILED: {error}", file=sys.stderr)
            return 1
    print("\nThe story went as it should.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
