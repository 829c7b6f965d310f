from pathlib import Path

import pytest

from devcluster.errors import DevClusterError
from devcluster.tool import HELM, PROMETHEUS, Tool
from unit.devcluster.machines import Machine

TOOLS = pytest.mark.parametrize("tool", [HELM, PROMETHEUS], ids=lambda tool: tool.name)


@pytest.fixture
def go_calls(machine: Machine, tmp_path: Path) -> Path:
    """A Go that makes a program out of nothing, and the file where it writes its arguments."""
    calls = tmp_path / "calls"
    machine.install("go", f'package=${{!#}}; echo "$*" >>{calls}; echo program >"$3${{package##*/}}"')
    return calls


@TOOLS
def test_a_tool_is_built_once(machine: Machine, go_calls: Path, tool: Tool) -> None:
    found = tool.find()
    (machine.programs / "go").unlink()

    assert tool.find() == found
    assert found.read_text() == "program\n"
    assert found.is_relative_to(machine.home / ".cache" / "tidelock" / tool.name)
    (call,) = go_calls.read_text().splitlines()
    assert call.endswith(tool.package)


def test_prometheus_is_built_without_the_clients_of_clouds(machine: Machine, go_calls: Path) -> None:
    PROMETHEUS.find()
    assert "-tags remove_all_sd" in go_calls.read_text()


@TOOLS
def test_the_module_pins_what_is_built(tool: Tool) -> None:
    assert f"tool {tool.package}\n" in (tool.module / "go.mod").read_text()


def test_a_failed_build_leaves_nothing(machine: Machine, go_calls: Path) -> None:
    machine.install("go", "echo no such module; exit 1")
    with pytest.raises(DevClusterError, match=r"go build failed:\n  no such module"):
        HELM.find()
    machine.install("go", 'echo program >"$3helm"')

    assert HELM.find().is_file()


def test_a_machine_without_go_is_told_what_to_install(machine: Machine) -> None:
    with pytest.raises(DevClusterError, match="Helm must be built: install Go"):
        HELM.find()
