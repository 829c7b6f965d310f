"""The development control plane: its start, its end, and its programs.

It needs an API server that keeps its objects when it and its store start again.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devcluster import (
    Cluster,
    DevClusterError,
    LocalCluster,
    WaitTimeoutError,
    add_kwok_node,
    attach,
    start_cluster,
    wait_for,
)
from devcluster.binaries import wanted_version
from devcluster.build import NEWEST
from devcluster.kubeconfig import server_url
from devcluster.processes import recorded

Command = Callable[..., tuple[int, str]]
OWNER = """
import sys, time
from pathlib import Path
from devcluster import start_cluster
start_cluster(Path(sys.argv[1]), controller_manager=False, kwok=False)
print("started", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def private(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Yield a cluster with every component, which these tests may break."""
    with start_cluster(tmp_path_factory.mktemp("private"), scheduler=True) as cluster:
        yield cluster


def pod_phases(cluster: Cluster, selector: str) -> list[str]:
    pods = json.loads(cluster.kubectl("get", "pods", f"--selector={selector}", "--output=json"))
    return [pod["status"]["phase"] for pod in pods["items"]]


def test_deployment_runs_on_a_kwok_node(private: LocalCluster) -> None:
    add_kwok_node(private, "worker-0", cpu="4", labels={"zone": "a"})

    node = json.loads(private.kubectl("get", "node", "worker-0", "--output=json"))
    assert node["status"]["allocatable"] == {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert node["metadata"]["labels"]["zone"] == "a"

    private.kubectl("create", "deployment", "web", "--image=web", "--replicas=2")
    wait_for(
        lambda: pod_phases(private, "app=web"),
        until=lambda phases: phases == ["Running", "Running"],
        what="two pods of web to run",
    )


def test_service_account_token_is_bound_by_rbac(private: LocalCluster) -> None:
    private.kubectl("create", "serviceaccount", "reader")
    private.kubectl("create", "clusterrole", "reader", "--verb=get,list", "--resource=nodes")
    private.kubectl(
        "create", "clusterrolebinding", "reader", "--clusterrole=reader", "--serviceaccount=default:reader"
    )
    login = (
        "--kubeconfig=/dev/null",
        f"--server={server_url(private.kubeconfig)}",
        f"--certificate-authority={private.directory / 'keys' / 'ca.crt'}",
        f"--token={private.kubectl('create', 'token', 'reader').strip()}",
    )

    who = json.loads(private.kubectl("auth", "whoami", "--output=json", *login))
    assert who["status"]["userInfo"]["username"] == "system:serviceaccount:default:reader"

    def lists_nodes() -> bool:
        try:
            private.kubectl("get", "nodes", *login)
        except DevClusterError:  # the API server has not seen the new binding yet
            return False
        return True

    wait_for(lists_nodes, what="the role to be bound")
    with pytest.raises(DevClusterError, match='cannot list resource "secrets"'):
        private.kubectl("get", "secrets", *login)


def test_versions_are_stamped_as_pinned(private: LocalCluster) -> None:
    versions = json.loads(private.kubectl("version", "--output=json"))
    server, client = versions["serverVersion"]["gitVersion"], versions["clientVersion"]["gitVersion"]
    assert server.startswith(f"v{wanted_version()}.")
    assert client.startswith(f"v{NEWEST}.")
    assert (server == client) is (wanted_version() == NEWEST)


def test_state_survives_a_restart_of_the_store_and_the_server(private: LocalCluster) -> None:
    private.kubectl("create", "configmap", "kept")

    private.apiserver.stop()
    assert not private.apiserver.running
    with pytest.raises(DevClusterError, match=r"kubectl get configmap kept .* failed: "):
        private.kubectl("get", "configmap", "kept", "--request-timeout=2s")
    private.etcd.kill()
    private.etcd.start()
    private.apiserver.start()

    assert private.kubectl("get", "configmap", "kept", "--output=name") == "configmap/kept\n"


def test_frozen_server_answers_again_when_thawed(private: LocalCluster) -> None:
    private.apiserver.freeze()
    assert private.apiserver.running
    assert not private.apiserver.healthy()
    private.apiserver.thaw()
    private.apiserver.wait_healthy()


def test_running_component_is_not_started_twice(private: LocalCluster) -> None:
    with pytest.raises(DevClusterError, match="etcd runs already"):
        private.etcd.start()


def test_stopped_component_can_not_be_frozen(private: LocalCluster) -> None:
    private.components["kwok"].kill()
    with pytest.raises(DevClusterError, match="kwok does not run"):
        private.components["kwok"].freeze()
    private.components["kwok"].start()


def test_attached_cluster_is_used_and_not_stopped(private: LocalCluster) -> None:
    with attach(private.kubeconfig) as cluster:
        assert "default" in cluster.kubectl("get", "namespaces", "--output=name")
    private.apiserver.wait_healthy()


def test_node_that_stays_unready_is_reported(private: LocalCluster) -> None:
    private.components["kwok"].stop()
    with pytest.raises(WaitTimeoutError, match=r"node lost to be Ready; last seen: .*Ready=None"):
        add_kwok_node(private, "lost", timeout=1)
    private.components["kwok"].start()


def test_stop_leaves_no_process(tmp_path: Path) -> None:
    cluster = start_cluster(tmp_path)
    processes = recorded(tmp_path)
    assert set(processes) == {"etcd", "kube-apiserver", "kube-controller-manager", "kwok"}
    cluster.apiserver.freeze()

    cluster.stop()

    assert not any(process.alive for process in processes.values())
    assert not recorded(tmp_path)


def test_cluster_ends_with_its_owner(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, tmp_path], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "started\n"
        processes = recorded(tmp_path)
        owner.send_signal(signal.SIGKILL)

    assert set(processes) == {"etcd", "kube-apiserver"}
    for process in processes.values():
        assert process.wait(60)


def test_component_that_ends_at_its_start_is_named_with_its_log(tmp_path: Path) -> None:
    (tmp_path / "etcd").write_text("no folder for data")

    with pytest.raises(DevClusterError, match=r"(?s)etcd ended at its start; .*not a directory"):
        start_cluster(tmp_path)

    assert not recorded(tmp_path)


@pytest.fixture
def devcluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Yield a function that runs the command line of a user without a cluster.

    The function returns the exit code and the output.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def run(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "devcluster", *arguments], capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    yield run
    run("down")


def test_up_is_idempotent_until_down(devcluster: Command, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "tidelock" / "devcluster" / "kubeconfig"

    code, told = devcluster("up", "--provider=go")
    assert (code, f"export KUBECONFIG={kubeconfig}" in told) == (0, True), told
    processes = recorded(kubeconfig.parent)
    assert "default" in attach(kubeconfig).kubectl("get", "namespaces")

    code, told = devcluster("up", "--provider=go")
    assert (code, told.splitlines()[0]) == (0, "The cluster is already running.")
    assert recorded(kubeconfig.parent) == processes
    assert devcluster("up", "--provider=go", "--scheduler") == (
        1,
        "The cluster runs without kube-scheduler: take it down first.\n",
    )

    code, told = devcluster("status")
    assert (code, server_url(kubeconfig) in told) == (0, True)
    for name, process in processes.items():
        assert f"{name:<24} {process.pid:>8}  running" in told

    assert devcluster("down") == (0, "The cluster is down.\n")
    assert not any(process.alive for process in processes.values())
    assert devcluster("status") == (1, "The cluster is not up.\n")


def test_up_with_kubelets_provides_nodes_until_down(devcluster: Command, tmp_path: Path) -> None:
    directory = tmp_path / "tidelock" / "devcluster"
    code, told = devcluster("up", "--provider=go", "--kubelets=1")
    assert code == 0, told
    assert set(recorded(directory)) >= {"kubelet-worker-1"}
    cluster = attach(directory / "kubeconfig")
    nodes = cluster.kubectl("get", "nodes", "--output=jsonpath={.items[*].status.allocatable.cpu}")
    assert nodes == "1"
    assert devcluster("up", "--provider=go", "--kubelets=2") == (
        1,
        "The cluster runs with 1 kubelets: take it down first.\n",
    )
    leftovers = re.findall(r"/\w+/hollow-kubelet\.\d+", (directory / "kubelet-worker-1.log").read_text())
    assert devcluster("down") == (0, "The cluster is down.\n")
    assert leftovers
    assert not any(Path(each).exists() for each in leftovers)


def test_kubelets_and_kwok_do_not_share_a_cluster(private: LocalCluster) -> None:
    with pytest.raises(DevClusterError, match="kwok plays the kubelets"):
        private.add_kubelet("worker-9")


def test_up_replaces_a_broken_cluster(devcluster: Command, tmp_path: Path) -> None:
    devcluster("up", "--provider=go")
    broken = recorded(tmp_path / "tidelock" / "devcluster")
    broken["kube-apiserver"].kill()

    code, told = devcluster("status")
    assert (code, f"{broken['kube-apiserver'].pid:>8}  ended" in told) == (1, True)

    code, told = devcluster("up", "--provider=go", "--scheduler")
    assert (code, told.splitlines()[0].startswith("Kubernetes answers at")) == (0, True)
    assert "kube-scheduler" in recorded(tmp_path / "tidelock" / "devcluster")
    assert not any(process.alive for process in broken.values())
