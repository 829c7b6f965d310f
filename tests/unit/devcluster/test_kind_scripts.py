import os
import subprocess
from pathlib import Path

import pytest
import yaml

from unit.devcluster.machines import Machine

SCRIPTS = Path(__file__).parents[3] / "hack" / "kind"
ROOT = SCRIPTS.parents[1]
TOOL = 'echo "{name} $*" >>"$HOME/calls"'
ID = "sha256:5e1f"
DOCKER = TOOL.format(name="docker") + f"\n[[ $1 != image ]] || echo {ID}"
KIND = TOOL.format(name="kind") + "\n[[ $1 != get ]] || echo {clusters}"
KUBECTL = (
    TOOL.format(name="kubectl") + '\n[[ $1 != kustomize ]] || printf "  - name: a\\n    image: tidelock:9\\n"'
)
OPERATOR = "--namespace tidelock-system deployment/tidelock"
PATCH = f'{{"spec": {{"template": {{"metadata": {{"annotations": {{"tidelock.dev/image-id": "{ID}"}}}}}}}}}}'


def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [SCRIPTS / script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
    )


@pytest.fixture
def docker_machine(machine: Machine) -> Machine:
    """Return a machine without a kind cluster, and tools that record their calls."""
    machine.link("bash", "cat", "dirname", "grep", "mkdir", "rm", "sed", "sort")
    machine.install("docker", DOCKER)
    machine.install("git", "echo 1a2b3c")
    machine.install("kind", KIND.format(clusters=""))
    machine.install("kubectl", KUBECTL)
    return machine


def calls(machine: Machine) -> list[str]:
    return (machine.home / "calls").read_text().splitlines()


def test_up_creates_builds_loads_and_deploys(docker_machine: Machine) -> None:
    kubeconfig = docker_machine.home / "made" / "kubeconfig"

    done = run("up", str(kubeconfig))

    assert done.returncode == 0, done.stderr
    at = f"--name tidelock --kubeconfig {kubeconfig}"
    assert calls(docker_machine) == [
        "docker info",
        "kind get clusters",
        f"kind create cluster {at} --config hack/kind/cluster.yaml --wait 180s",
        f"kind export kubeconfig {at}",
        "kubectl wait nodes --all --for=condition=Ready --timeout=180s",
        "kubectl kustomize manifests/base",
        f"docker build --tag tidelock:9 --build-arg REVISION=1a2b3c {ROOT}",
        "kind load docker-image --name tidelock tidelock:9",
        "docker image inspect --format {{.Id}} tidelock:9",
        "kubectl apply --server-side -k manifests/base",
        f"kubectl patch {OPERATOR} --patch {PATCH}",
        f"kubectl rollout status {OPERATOR} --timeout=180s",
    ]


def test_the_cluster_has_the_workers_of_the_story() -> None:
    config = yaml.safe_load((SCRIPTS / "cluster.yaml").read_text())
    assert (config["kind"], config["apiVersion"]) == ("Cluster", "kind.x-k8s.io/v1alpha4")
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker", "worker", "worker"]


def test_images_the_configuration_and_the_way_to_load_can_be_given(docker_machine: Machine) -> None:
    load = docker_machine.programs / "load"
    docker_machine.install("load", TOOL.format(name="load") + "\necho sha256:77")
    kubeconfig = docker_machine.home / "kubeconfig"
    done = run(
        "up",
        str(kubeconfig),
        TIDELOCK_NODE_IMAGE="mirror/node:v1.37.2",
        TIDELOCK_KIND_CONFIG="/etc/kind.yaml",
        TIDELOCK_LOAD=str(load),
    )
    assert done.returncode == 0, done.stderr
    called = calls(docker_machine)
    at = f"--name tidelock --kubeconfig {kubeconfig}"
    given = "--config /etc/kind.yaml --image mirror/node:v1.37.2 --wait 180s"
    assert f"kind create cluster {at} {given}" in called
    assert f"load tidelock:9 {ROOT}" in called
    assert "docker build" not in "".join(called)
    assert PATCH.replace(ID, "sha256:77") in called[-2]


def test_load_prints_only_the_id_and_takes_another_base(docker_machine: Machine, tmp_path: Path) -> None:
    docker_machine.install("docker", f"echo building\n{DOCKER}")
    done = run("load", "tidelock:9", str(tmp_path), TIDELOCK_BASE="mirror/python:3.12-slim")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, ID)
    arguments = "--build-arg REVISION=1a2b3c --build-arg BASE=mirror/python:3.12-slim"
    assert calls(docker_machine)[0] == f"docker build --tag tidelock:9 {arguments} {tmp_path}"


def test_up_keeps_a_cluster_that_exists(docker_machine: Machine) -> None:
    docker_machine.install("kind", KIND.format(clusters="tidelock"))
    assert run("up").returncode == 0
    assert "create cluster" not in "".join(calls(docker_machine))


def test_up_that_can_not_create_a_cluster_says_how_to_look_into_it(docker_machine: Machine) -> None:
    docker_machine.install("kind", "[[ $1 != create ]]")
    done = run("up", "kubeconfig")
    assert done.returncode == 1
    again = "kind create cluster --name tidelock --kubeconfig kubeconfig --config hack/kind/cluster.yaml"
    assert f"To look into the nodes: {again} --retain && kind export logs --name tidelock" in done.stderr


def test_up_shows_why_the_operator_is_not_ready(docker_machine: Machine) -> None:
    docker_machine.install("kubectl", KUBECTL + "\n[[ $1 != rollout ]]")
    done = run("up")
    assert done.returncode == 1
    assert "The operator did not become ready" in done.stderr
    assert calls(docker_machine)[-3:] == [
        "kubectl get pods --namespace tidelock-system --output wide",
        "kubectl events --namespace tidelock-system --types Warning",
        f"kubectl logs {OPERATOR} --tail 20",
    ]


@pytest.mark.parametrize("missing", ["docker", "kind", "kubectl"])
def test_up_names_the_missing_tool(docker_machine: Machine, missing: str) -> None:
    (docker_machine.programs / missing).unlink()
    done = run("up")
    assert done.returncode == 1
    assert done.stderr == f"A cluster in Docker needs docker, kind and kubectl: install {missing}.\n"


def test_up_without_a_docker_engine_is_an_error(docker_machine: Machine) -> None:
    docker_machine.install("docker", "exit 1")
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
