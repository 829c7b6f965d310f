from pathlib import Path

import pytest

from devcluster.cluster import attach, attached
from devcluster.errors import DevClusterError
from unit.devcluster.machines import Machine


@pytest.fixture
def kubeconfig(machine: Machine) -> Path:
    path = machine.home / "config"
    path.touch()
    return path


def test_kubeconfig_of_the_shell_is_never_used(kubeconfig: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert attached() is None


def test_named_kubeconfig_is_used(
    machine: Machine, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.install("kubectl", 'echo "$@"')
    monkeypatch.setenv("TIDELOCK_KUBECONFIG", str(kubeconfig))

    cluster = attached()

    assert cluster is not None
    assert cluster.kubectl("get", "pods") == f"--kubeconfig={kubeconfig} get pods\n"


def test_named_kubeconfig_must_exist(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDELOCK_KUBECONFIG", str(machine.home / "none"))
    with pytest.raises(DevClusterError, match=r"There is no kubeconfig .*none"):
        attached()


def test_input_reaches_kubectl(machine: Machine, kubeconfig: Path) -> None:
    machine.install("kubectl", "read -r line; echo got $line")
    assert attach(kubeconfig).kubectl("apply", "-f", "-", input="kind: Pod\n") == "got kind: Pod\n"


def test_failure_of_kubectl_carries_its_error(machine: Machine, kubeconfig: Path) -> None:
    machine.install("kubectl", "echo forbidden >&2; exit 1")
    with pytest.raises(DevClusterError, match=r"^kubectl get pods failed: forbidden$"):
        attach(kubeconfig).kubectl("get", "pods")
