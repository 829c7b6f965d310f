"""A job of Kueue gets nodes from Karpenter: its group of reservations asks for them."""

from contextlib import closing
from pathlib import Path

from cluster.api import Api
from cluster.autoscaler_example import NODE_CPU
from cluster.crds import install_crds
from cluster.operator_process import OperatorProcess
from cluster.world import World
from devcluster import start_cluster
from documents import ROOT, page_block
from peers.karpenter import karpenter, node_pool
from peers.kueue import Team, running_kueue


def test_a_job_starts_on_the_nodes_that_its_group_has_asked_for(tmp_path: Path) -> None:
    for name in ("controlplane", "kueue", "karpenter", "operator"):
        (tmp_path / name).mkdir()
    queue = page_block(ROOT / "docs" / "kueue.md", "queue.yaml").text
    with start_cluster(tmp_path / "controlplane") as cluster:
        install_crds(cluster)
        cluster.kubectl("create", "namespace", "shop")
        with (
            running_kueue(cluster, tmp_path / "kueue"),
            karpenter(cluster, tmp_path / "karpenter"),
            OperatorProcess(
                cluster.kubeconfig, tmp_path / "operator", "--provisioning-requests", "--request-nodes"
            ) as process,
            closing(World(Api(cluster.kubeconfig))) as world,
        ):
            cluster.kubectl("apply", "--server-side", "-f", "-", input=queue)
            world.quota(hard={"cpu": "8"}, autoscaling="RequestNodes")
            # It has capacity for one pod of the two.
            first = world.node("first", cpu=NODE_CPU)
            with node_pool(world):
                job = Team(world, "gpus").job("train", cpu="1500m")
                job.request().until_true("Provisioned")
                job.until_started()
                nodes = {pod.until_bound() for pod in job.pods(2)}
                assert len(nodes) == 2
                assert first.name in nodes
            assert process.stop() == 0
    assert "Traceback" not in process.log
