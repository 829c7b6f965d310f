"""The tutorial on nodes with real kubelets, which its page also offers."""

from pathlib import Path

import pytest

from cluster.shell import Shell, replay
from devcluster import LocalCluster
from documents import blocks, commands
from replayed import TUTORIAL

_WORKERS = ("worker-1", "worker-2")
_MADE = ("kubectl apply -f nodes.yaml", "kubectl create namespace tidelock-system")


@pytest.mark.nightly  # cluster/test_docs.py replays the tutorial on nodes of kwok
@pytest.mark.usefixtures("kubelet_operator")
def test_the_tutorial_prints_the_documented_output_on_real_kubelets(
    kubelet_cluster: LocalCluster, tmp_path: Path
) -> None:
    """The nodes and Tidelock's namespace exist already, so the commands that create them are left out."""
    page = Shell(kubelet_cluster, tmp_path, "test-page")
    kubelets = [kubelet_cluster.add_kubelet(page.own(worker)) for worker in _WORKERS]
    replayed = 0
    try:
        for block in (block for block in blocks() if block.page == TUTORIAL):
            page.file(block)
            for command in commands(block) if block.language in {"sh", "console"} else ():
                if command.words[0] == "kubectl" and command.typed not in _MADE:
                    replay(page, command)
                    replayed += 1
    finally:
        for kubelet in kubelets:
            kubelet.stop()
        page.run("kubectl delete node worker-1 worker-2 --ignore-not-found --wait=false")
        page.run("kubectl delete waterlevel tutorial --ignore-not-found --wait=false")
        page.run("kubectl delete namespace shop --ignore-not-found --wait=false")
    assert replayed > 20
