import re
from pathlib import Path

import pytest

from devcluster.build import find_module
from devcluster.errors import DevClusterError
from devcluster.tools import SOURCES, Source, find_program
from unit.devcluster.machines import Machine


@pytest.fixture
def go_calls(machine: Machine, tmp_path: Path) -> Path:
    """Install a Go that creates a fake program, and return the file with the arguments of its calls."""
    calls = tmp_path / "calls"
    machine.install("go", f'echo "$*" >>{calls}; echo program >"$3prometheus"')
    return calls


def test_prometheus_is_built_once_without_the_clients_of_clouds(machine: Machine, go_calls: Path) -> None:
    found = find_program("prometheus")
    (machine.programs / "go").unlink()

    assert find_program("prometheus") == found
    assert found.read_text() == "program\n"
    assert found.is_relative_to(machine.home / ".cache" / "tidelock" / "tools")
    (call,) = go_calls.read_text().splitlines()
    assert "-tags remove_all_sd" in call
    assert call.endswith(SOURCES["prometheus"].package)


def test_each_program_is_built_when_it_is_needed(machine: Machine, go_calls: Path) -> None:
    find_program("prometheus")
    machine.install("go", f'echo "$*" >>{go_calls}; echo tool >"$3promtool"')

    assert find_program("promtool").read_text() == "tool\n"
    assert find_program("prometheus").read_text() == "program\n"
    assert [call.rpartition(" ")[2] for call in go_calls.read_text().splitlines()] == [
        SOURCES["prometheus"].package,
        SOURCES["promtool"].package,
    ]


def test_a_file_of_a_pinned_module_is_found_in_the_module_cache(machine: Machine, tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    machine.install("go", f"""echo "$*" >{calls}; echo go: downloading; echo '{{"Dir": "/modules/kueue"}}'""")
    assert find_module(tmp_path, "sigs.k8s.io/kueue") == Path("/modules/kueue")
    assert calls.read_text() == "mod download -json sigs.k8s.io/kueue\n"


@pytest.mark.parametrize("source", [each for each in SOURCES.values() if each.package != "."])
def test_the_module_pins_each_built_package(source: Source) -> None:
    context, _, _ = (source.module / "go.mod").read_text().partition("\nrequire (")
    assert source.package in re.findall(r"^(?:tool |\t)(\S+)$", context, re.MULTILINE)


def test_a_failed_build_leaves_nothing(machine: Machine, go_calls: Path) -> None:
    machine.install("go", "echo no such module; exit 1")
    with pytest.raises(DevClusterError, match=r"go build failed; .* GOPROXY:\n  no such module"):
        find_program("prometheus")
    machine.install("go", 'echo program >"$3prometheus"')

    assert find_program("prometheus").is_file()


def test_the_error_without_go_names_the_program_to_install(machine: Machine) -> None:
    with pytest.raises(DevClusterError, match="promtool must be built: install Go"):
        find_program("promtool")
