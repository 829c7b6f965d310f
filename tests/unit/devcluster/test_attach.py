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


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("v1.20.15", "; kubectl 1.20.15 is too old: install 1.24 or later"),
        ("v1.23.17", "; kubectl 1.23.17 is too old: install 1.24 or later"),
        ("v1.24.0", ""),
        ("v1.36.3", ""),
    ],
)
def test_failure_of_a_kubectl_that_is_too_old_suggests_an_upgrade(
    machine: Machine, kubeconfig: Path, version: str, advice: str
) -> None:
    client = f'{{"clientVersion": {{"gitVersion": "{version}"}}}}'
    machine.install("kubectl", f"[[ $1 == version ]] && echo '{client}' || {{ echo no >&2; exit 1; }}")
    with pytest.raises(DevClusterError) as caught:
        attach(kubeconfig).kubectl("create", "token", "tidelock")
    assert str(caught.value) == f"kubectl create token tidelock failed: no{advice}"
