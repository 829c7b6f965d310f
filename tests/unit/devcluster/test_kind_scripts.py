import subprocess
from pathlib import Path

import pytest
import yaml

from unit.devcluster.machines import Machine

SCRIPTS = Path(__file__).parents[3] / "hack" / "kind"
TOOL = 'echo "{name} $*" >>"$HOME/calls"'
KIND = (
    TOOL.format(name="kind")
    + '\n[[ $* != *"--config -"* ]] || cat >"$HOME/kind.yaml"\n[[ $1 != get ]] || echo {clusters}'
)
KUBECTL = (
    TOOL.format(name="kubectl") + '\n[[ $1 != kustomize ]] || printf "  - name: a\\n    image: tidelock:9\\n"'
)


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPTS / script, *arguments], capture_output=True, text=True, check=False)


@pytest.fixture
def docker_machine(machine: Machine) -> Machine:
    """Return a machine with eight CPUs, no kind cluster, and tools that record their calls."""
    machine.link("bash", "cat", "dirname", "grep", "mkdir", "rm", "sed", "sort")
    machine.install("docker", TOOL.format(name="docker") + "\n[[ $1 != info ]] || echo 8")
    machine.install("kind", KIND.format(clusters=""))
    machine.install("kubectl", KUBECTL)
    return machine


@pytest.mark.parametrize(("cpus", "reserved"), [(4, "100m"), (8, "4100m"), (64, "60100m")])
def test_nodes_offer_3900m_on_hosts_of_any_size(cpus: int, reserved: str) -> None:
    config = yaml.safe_load(run("config", str(cpus)).stdout)

    assert (config["kind"], config["apiVersion"]) == ("Cluster", "kind.x-k8s.io/v1alpha4")
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker", "worker", "worker"]
    [patch] = map(yaml.safe_load, config["kubeadmConfigPatches"])
    assert patch == {"kind": "KubeletConfiguration", "systemReserved": {"cpu": reserved}}


def test_host_that_is_too_small_is_an_error() -> None:
    done = run("config", "3")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == "The Docker host has 3 CPUs, but the nodes need 4: give Docker more.\n"


def test_up_creates_builds_loads_and_deploys(docker_machine: Machine) -> None:
    kubeconfig = docker_machine.home / "made" / "kubeconfig"

    done = run("up", str(kubeconfig))

    assert done.returncode == 0, done.stderr
    at = f"--name tidelock --kubeconfig {kubeconfig}"
    assert (docker_machine.home / "calls").read_text().splitlines() == [
        "docker info --format {{.NCPU}}",
        "kind get clusters",
        f"kind create cluster {at} --config - --wait 120s",
        f"kind export kubeconfig {at}",
        "kubectl kustomize manifests/base",
        "docker build --tag tidelock:9 .",
        "kind load docker-image --name tidelock tidelock:9",
        "kubectl apply -k manifests/base",
        "kubectl wait deployment --all --all-namespaces --for=condition=Available --timeout=180s",
    ]
    assert (docker_machine.home / "kind.yaml").read_text() == run("config", "8").stdout


def test_up_keeps_a_cluster_that_exists(docker_machine: Machine) -> None:
    docker_machine.install("kind", KIND.format(clusters="tidelock"))
    assert run("up").returncode == 0
    assert "create cluster" not in (docker_machine.home / "calls").read_text()


@pytest.mark.parametrize("missing", ["docker", "kind", "kubectl"])
def test_up_names_the_missing_tool(docker_machine: Machine, missing: str) -> None:
    (docker_machine.programs / missing).unlink()
    done = run("up")
    assert done.returncode == 1
    assert done.stderr == f"A cluster in Docker needs docker, kind and kubectl: install {missing}.\n"


def test_up_without_a_docker_engine_is_an_error(docker_machine: Machine) -> None:
    docker_machine.install("docker", "echo 0; exit 1")
    done = run("up")
    assert (done.returncode, done.stderr) == (1, "No Docker engine answers: start it.\n")


def test_down_deletes_cluster_and_kubeconfig(docker_machine: Machine) -> None:
    kubeconfig = docker_machine.home / "kubeconfig"
    kubeconfig.touch()
    assert run("down", str(kubeconfig)).returncode == 0
    assert (docker_machine.home / "calls").read_text() == (
        f"kind delete cluster --name tidelock --kubeconfig {kubeconfig}\n"
    )
    assert not kubeconfig.exists()
