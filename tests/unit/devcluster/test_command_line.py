import pytest

from devcluster.__main__ import main
from unit.devcluster.machines import Machine


def test_up_without_go_and_docker_prints_one_sentence(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up"]) == 1

    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "Nothing here can run Kubernetes: "
        "install Go 1.26 or later (on Linux), or Docker with a running engine, kind and kubectl.\n"
    )


def test_provider_is_taken_from_the_environment(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TIDELOCK_PROVIDER", "kind")
    assert main(["up"]) == 1
    assert capsys.readouterr().err.startswith("The provider kind needs")


def test_kubelets_are_refused_for_the_provider_kind(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for program in ("docker", "kind", "kubectl"):
        machine.install(program, "exit 0")
    assert main(["up", "--provider=kind", "--kubelets=2"]) == 1
    assert capsys.readouterr().err == ("The provider kind has kubelets of its own: choose the provider go.\n")


def test_status_without_a_cluster_fails(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status"]) == 1
    assert capsys.readouterr().out == "The cluster is not up.\n"


def test_down_without_a_cluster_succeeds(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["down"]) == 0
    assert capsys.readouterr().out == "The cluster is down.\n"
