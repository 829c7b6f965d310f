import pytest

from devcluster.errors import DevClusterError
from devcluster.provider import Provider, choose
from unit.devcluster.machines import Machine


@pytest.fixture
def docker_machine(machine: Machine) -> Machine:
    for name in ("docker", "kind", "kubectl"):
        machine.install(name, "exit 0")
    return machine


def test_docker_engine_and_kind_are_preferred(docker_machine: Machine) -> None:
    docker_machine.install("go", "exit 0")
    assert choose(None) is Provider.KIND


def test_requested_provider_is_chosen(docker_machine: Machine) -> None:
    docker_machine.install("go", "exit 0")
    assert choose("go") is Provider.GO


def test_docker_client_without_an_engine_is_not_enough(
    docker_machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    docker_machine.install("docker", "exit 1")
    docker_machine.install("go", "exit 0")
    assert choose("go") is Provider.GO
    assert capsys.readouterr().err == ""
    assert choose(None) is Provider.GO
    text = "Docker and kind are installed, but no Docker engine answers: a local control plane is used.\n"
    assert capsys.readouterr().err == text


@pytest.mark.parametrize("missing", ["docker", "kind", "kubectl"])
def test_kind_needs_all_its_tools(docker_machine: Machine, missing: str) -> None:
    docker_machine.install("go", "exit 0")
    (docker_machine.programs / missing).unlink()
    assert choose(None) is Provider.GO
    with pytest.raises(DevClusterError, match="The provider kind needs Docker"):
        choose("kind")


def test_provider_go_needs_go(docker_machine: Machine) -> None:
    with pytest.raises(DevClusterError, match=r"The provider go needs Go"):
        choose("go")


def test_unknown_provider_is_refused(machine: Machine) -> None:
    with pytest.raises(DevClusterError, match="no provider minikube: choose kind or go"):
        choose("minikube")


def test_only_the_provider_go_supports_other_versions_of_kubernetes(
    docker_machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker_machine.install("go", "exit 0")
    monkeypatch.setenv("TIDELOCK_KUBERNETES", "1.35")
    assert choose(None) is Provider.GO
    with pytest.raises(DevClusterError, match=r"one version of Kubernetes: to have 1\.35, choose"):
        choose("kind")
