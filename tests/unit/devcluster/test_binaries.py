import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devcluster.binaries import NOTHING_RUNS_KUBERNETES, cache_key, find_binaries, obtainable
from devcluster.build import MODULE, NEWEST, OLDER, PACKAGES, STAGES, VERSIONED, link_flags
from devcluster.errors import DevClusterError
from unit.devcluster.machines import Machine

GO = """
echo "$*" >>{calls}
if [[ $1 == mod ]]; then
    echo '{{"Dir": "{kwok}"}}'
else
    for package in "${{@:6}}"; do
        name=${{package##*/}}
        echo "$package" >"$3${{name/v3/server}}"
    done
fi
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("require (\n\tk8s.io/kubernetes v1.40.7 // indirect\n)\n")
    (folder / "go.sum").write_text("a")
    return folder


@pytest.fixture
def go_calls(machine: Machine, tmp_path: Path) -> Path:
    """Install a Go that creates fake programs, and return the file with the arguments of its calls."""
    for stage in STAGES:
        path = tmp_path / "kwok" / stage
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(stage)
    calls = tmp_path / "calls"
    machine.install("go", GO.format(calls=calls, kwok=tmp_path / "kwok"))
    return calls


def cached_folder(machine: Machine, module: Path = MODULE, programs: Sequence[str] = [*PACKAGES]) -> Path:
    return machine.home / ".cache" / "tidelock" / "controlplane" / cache_key(module, programs)


def test_version_stamps_come_from_the_module(module: Path) -> None:
    assert link_flags(module) == (
        "-s -w -X k8s.io/component-base/version.gitVersion=v1.40.7"
        " -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=40"
    )


def test_module_without_kubernetes_is_refused(module: Path) -> None:
    (module / "go.mod").write_text("module other\n")
    with pytest.raises(DevClusterError, match=r"go\.mod requires no k8s\.io/kubernetes"):
        link_flags(module)


def test_cache_key_changes_with_everything_that_changes_the_build(module: Path) -> None:
    keys = [cache_key(module, ["etcd"]), cache_key(module, ["etcd", "kubectl"])]
    (module / "go.sum").write_text("b")
    keys.append(cache_key(module, ["etcd"]))
    (module / "go.mod").write_text("require k8s.io/api v0.1.0\n" + (module / "go.mod").read_text())
    keys.append(cache_key(module, ["etcd"]))

    assert len(set(keys)) == len(keys)
    assert keys[-1] == cache_key(module, ["etcd"])


def test_error_without_go_names_the_programs_to_install(machine: Machine) -> None:
    assert not obtainable()
    with pytest.raises(DevClusterError) as caught:
        find_binaries()
    assert str(caught.value) == NOTHING_RUNS_KUBERNETES


def test_go_version_to_install_is_the_one_that_the_module_needs() -> None:
    needed = re.search(r"^go (\d+\.\d+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert needed is not None
    assert f"Go {needed[1]} or later" in NOTHING_RUNS_KUBERNETES


@pytest.mark.parametrize("version", ["1.9", "1.19.8", "1.25.10"])
def test_go_that_is_too_old_is_an_error(machine: Machine, version: str) -> None:
    machine.install("go", f"echo go version go{version} linux/amd64; [[ $1 == version ]]")
    minor = ".".join(version.split(".")[:2])
    with pytest.raises(DevClusterError, match=rf"^Go {minor} is too old: install Go 1\.26 or later\.$"):
        find_binaries()


def test_go_that_cannot_fetch_the_needed_version_is_too_old(machine: Machine) -> None:
    """Go 1.21 and later fetch the Go of the module. If that fails, they do not print their version."""
    machine.install("go", "[[ $GOTOOLCHAIN == local ]] && echo go version go1.22.3 linux/amd64")
    with pytest.raises(DevClusterError, match=r"^Go 1\.22 is too old: install Go 1\.26 or later\.$"):
        find_binaries()


def test_cache_that_cannot_be_written_is_an_error(machine: Machine, go_calls: Path) -> None:
    (machine.home / ".cache").write_text("a file, where a folder is wanted")
    with pytest.raises(DevClusterError) as caught:
        find_binaries()
    assert str(caught.value) == (
        f"Can't write to {machine.home}/.cache/tidelock/controlplane (Not a directory): make it writable, "
        "or name other folders in XDG_CACHE_HOME and XDG_STATE_HOME."
    )


@pytest.mark.parametrize("version", OLDER)
def test_module_of_an_older_version_pins_only_that_version(version: str) -> None:
    assert f"gitVersion=v{version}." in link_flags(MODULE / version)
    text = (MODULE / version / "go.mod").read_text()
    staged = re.findall(r"^\tk8s\.io/\S+ => k8s\.io/\S+ v0\.(\S+)\.\d+$", text, re.MULTILINE)
    assert set(staged) == {version.removeprefix("1.")}
    assert re.findall(r"^\t(\S+/cmd/\S+)$", text, re.MULTILINE) == [PACKAGES[name] for name in VERSIONED]


def test_newest_version_is_the_version_of_the_module() -> None:
    assert f"gitVersion=v{NEWEST}." in link_flags(MODULE)


def test_older_version_shares_the_programs_without_a_version(
    machine: Machine, go_calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = find_binaries()
    monkeypatch.setenv("TIDELOCK_KUBERNETES", "1.35")

    found = find_binaries()

    older = cached_folder(machine, MODULE / "1.35", VERSIONED)
    assert dict(found.programs) == {**newest.programs, **{name: older / name for name in VERSIONED}}
    assert found.stages == newest.stages
    assert f"-ldflags {link_flags(MODULE / '1.35')} " in go_calls.read_text().splitlines()[-1]


def test_older_version_takes_precedence_over_the_assets(
    machine: Machine, go_calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).touch(mode=0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("TIDELOCK_KUBERNETES", "1.34")

    programs = find_binaries().programs

    older = cached_folder(machine, MODULE / "1.34", VERSIONED)
    assert (programs["etcd"], programs["kube-apiserver"]) == (tmp_path / "etcd", older / "kube-apiserver")


def test_unknown_version_is_an_error_that_names_the_known_ones(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOCK_KUBERNETES", "1.33")
    with pytest.raises(DevClusterError) as caught:
        find_binaries()
    assert str(caught.value) == "There is no Kubernetes 1.33 here: choose 1.34, 1.35, 1.36 or 1.37."


def test_build_fills_the_cache(machine: Machine, go_calls: Path) -> None:
    found = find_binaries()

    assert dict(found.programs) == {name: cached_folder(machine) / name for name in PACKAGES}
    assert {name: path.read_text().strip() for name, path in found.programs.items()} == dict(PACKAGES)
    assert [path.read_text() for path in found.stages] == list(STAGES)
    assert f"-ldflags {link_flags(MODULE)} " in go_calls.read_text()


def test_cached_programs_need_no_go(machine: Machine, go_calls: Path) -> None:
    built = find_binaries()
    (machine.programs / "go").unlink()

    assert obtainable()
    assert find_binaries() == built


def test_only_programs_that_the_assets_lack_are_built(
    go_calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in ("etcd", "kube-apiserver", "kubectl", "kwok"):
        (assets / name).touch(mode=0o755)
    (assets / "kube-scheduler").touch(mode=0o644)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))

    found = find_binaries()

    build = go_calls.read_text().splitlines()[0]
    missing = ["kube-controller-manager", "kube-scheduler", "kubemark", "kwok"]
    assert build.endswith(" ".join(PACKAGES[name] for name in missing))
    assert found.programs["kube-apiserver"] == assets / "kube-apiserver"
    assert all(found.programs[name].parent != assets for name in missing)


def test_failed_build_shows_its_output_and_leaves_no_cache(machine: Machine, go_calls: Path) -> None:
    good = (machine.programs / "go").read_text()
    machine.install("go", "echo no such module; exit 1")

    with pytest.raises(DevClusterError, match=r"go build failed; .* GOPROXY:\n  no such module"):
        find_binaries()
    assert not cached_folder(machine).exists()

    (machine.programs / "go").write_text(good)
    assert find_binaries().programs["etcd"].is_file()


def test_two_concurrent_callers_build_once(
    machine: Machine, go_calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.link("sleep")
    machine.install("go", "sleep 0.3\n" + (machine.programs / "go").read_text())

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: find_binaries(), range(2))

    assert first == second
    assert [call.split()[0] for call in go_calls.read_text().splitlines()] == ["build", "mod"]
    assert "Waiting for another build" in capsys.readouterr().err
