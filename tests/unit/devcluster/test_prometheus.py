from pathlib import Path

import pytest

from devcluster.errors import DevClusterError
from devcluster.prometheus import MODULE, PACKAGE, find_prometheus
from unit.devcluster.machines import Machine


@pytest.fixture
def go_calls(machine: Machine, tmp_path: Path) -> Path:
    """A Go that makes a program out of nothing, and the file where it writes its arguments."""
    calls = tmp_path / "calls"
    machine.install("go", f'echo "$*" >>{calls}; echo program >"$3prometheus"')
    return calls


def test_prometheus_is_built_once_without_the_clients_of_clouds(machine: Machine, go_calls: Path) -> None:
    found = find_prometheus()
    (machine.programs / "go").unlink()

    assert find_prometheus() == found
    assert found.read_text() == "program\n"
    assert found.is_relative_to(machine.home / ".cache" / "tidelock" / "prometheus")
    (call,) = go_calls.read_text().splitlines()
    assert "-tags remove_all_sd" in call
    assert call.endswith(PACKAGE)


def test_the_module_pins_what_is_built() -> None:
    assert f"tool {PACKAGE}\n" in (MODULE / "go.mod").read_text()


def test_a_failed_build_leaves_nothing(machine: Machine, go_calls: Path) -> None:
    machine.install("go", "echo no such module; exit 1")
    with pytest.raises(DevClusterError, match=r"go build failed:\n  no such module"):
        find_prometheus()
    machine.install("go", 'echo program >"$3prometheus"')

    assert find_prometheus().is_file()


def test_a_machine_without_go_is_told_what_to_install(machine: Machine) -> None:
    with pytest.raises(DevClusterError, match="Prometheus must be built: install Go"):
        find_prometheus()
