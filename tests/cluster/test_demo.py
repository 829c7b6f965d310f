"""The demo, played as a user plays it.

It needs an API server that serves kubectl, controllers and several clients of one story.
"""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from demo.__main__ import run as story
from demo.operator import running_operator
from demo.stage import Stage, namespace, ready_workers
from demo.story import CHAPTERS
from demo.world import NAMESPACE
from devcluster import add_kwok_node, start_cluster
from devcluster.binaries import wanted_version
from devcluster.build import NEWEST
from devcluster.identity import operator_kubeconfig

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param([], id="kwok"),
        pytest.param(["--kubelets"], id="kubelets", marks=pytest.mark.nightly),
    ],
)
def test_the_demo_succeeds_and_shows_all_chapters(options: list[str]) -> None:
    if options and wanted_version() != NEWEST:
        pytest.skip("a kubelet must not be newer than its API server")
    demo = run("demo", *options)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert demo.stdout.rstrip().endswith("The story went as it should.")
    assert [title for title, _ in CHAPTERS if title not in demo.stdout] == []


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_story_holds_on_workers_of_any_size_with_other_nodes_beside_them(tmp_path: Path) -> None:
    """Regression: with kind, which has a control plane beside the workers, chapters 2 and 6 expected that a
    refusal counts three nodes. On a first worker larger than the smallest, pods that should have been refused
    fitted. A worker that became Ready late was used before.
    """
    with ExitStack() as stack:
        cluster = stack.enter_context(start_cluster(tmp_path))
        cluster.kubectl("apply", "--filename", str(ROOT / "crds"))
        role = "node-role.kubernetes.io/control-plane"
        add_kwok_node(cluster, "a-control-plane", cpu="16", labels={role: ""})
        cluster.kubectl("taint", "nodes", "a-control-plane", f"{role}=:NoSchedule")
        add_kwok_node(cluster, "worker-1", cpu="8")
        add_kwok_node(cluster, "worker-2", cpu="2")
        executor = stack.enter_context(ThreadPoolExecutor())
        waiting = executor.submit(ready_workers, cluster)
        add_kwok_node(cluster, "worker-3")
        workers = waiting.result()
        assert workers == ["worker-1", "worker-2", "worker-3"]
        add_kwok_node(cluster, "worker-4", cpu="32")
        stack.enter_context(
            running_operator(operator_kubeconfig(cluster, tmp_path), tmp_path / "operator.log")
        )
        stack.enter_context(namespace(cluster, NAMESPACE))
        asyncio.run(story(Stage(cluster, workers)))


def test_the_screens_of_the_plugin_are_those_of_its_page() -> None:
    demo = run("demo.tour", "--check")
    assert demo.returncode == 0, demo.stdout + demo.stderr


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the demo on a control plane of its own."""
    environment = {**os.environ, "PYTHONPATH": "operator:hack", "TIDELOCK_PROVIDER": "go"}
    environment.pop("TIDELOCK_KUBECONFIG", None)
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
