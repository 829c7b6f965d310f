"""A release has all of its files, is the same in each build, and can be installed from these files alone."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from documents import ROOT
from installation.released import install
from installation.rendering import EVERYTHING, Charted, Kustomized
from release import CHECKSUMS, NAME, NOTES, ReleaseError, archive, section, tracked
from tidelock import __version__

FILES = {
    CHECKSUMS,
    NOTES,
    "SIGNATURES",
    f"{NAME}-image.tar.gz",
    f"{NAME}-manifests.tar.gz",
    f"{NAME}-py3-none-any.whl",
    f"{NAME}.cdx.json",
    f"{NAME}.tgz",
}


def unpacked(file: Path, folder: Path) -> Path:
    with tarfile.open(file) as tar:
        tar.extractall(folder, filter="data")
    return folder


def test_a_release_has_exactly_these_files_and_their_checksums(release: Path) -> None:
    assert {each.name for each in release.iterdir()} == FILES
    told = subprocess.check_output(["sha256sum", "--check", CHECKSUMS], cwd=release, text=True)
    assert sorted(told.splitlines()) == sorted(f"{name}: OK" for name in FILES - {CHECKSUMS})


def test_a_build_elsewhere_at_another_time_gives_the_same_bytes(release: Path, tmp_path: Path) -> None:
    """Paths, times, owners' rights, the time zone and the order of hashes differ there."""
    copy, again = tmp_path / "elsewhere", tmp_path / "again"
    for each in tracked(ROOT, ["."]):
        (copy / each).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / each, copy / each)
        (copy / each).chmod(0o700 if os.access(ROOT / each, os.X_OK) else 0o600)
        os.utime(copy / each, (1e9, 1e9))
    subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)
    subprocess.run(["git", "add", "--all", "--force"], cwd=copy, check=True)
    environment = os.environ | {
        "PYTHONPATH": f"{copy / 'operator'}:{copy / 'hack'}",
        "SOURCE_DATE_EPOCH": "1700000000",
        "PYTHONHASHSEED": "7",
        "TZ": "Asia/Kathmandu",
    }
    command = [sys.executable, "-m", "release", str(again)]
    subprocess.run(command, cwd=copy, env=environment, umask=0o077, stdout=subprocess.DEVNULL, check=True)
    assert {each.name for each in again.iterdir()} == FILES
    different = [name for name in FILES if (release / name).read_bytes() != (again / name).read_bytes()]
    assert different == []


def test_the_wheel_can_be_installed_without_a_network(release: Path, tmp_path: Path) -> None:
    programs = install(release, tmp_path / "venv")
    assert programs.run("tidelock", "--version").strip() == __version__
    assert "reserve" in programs.run("kubectl-tidelock", "--help")
    place = programs.run("python", "-c", "import tidelock.web; print(*tidelock.web.__path__)").strip()
    assert Path(place).is_relative_to(programs.folder)
    assert {each.name for each in Path(place, "assets").iterdir()} == {
        each.name for each in (ROOT / "operator" / "tidelock" / "web" / "assets").iterdir()
    }


def test_the_chart_of_a_release_renders_the_same_objects(release: Path, charted: Charted) -> None:
    package = release / f"{NAME}.tgz"
    assert charted.objects(EVERYTHING, chart=package) == charted.objects(EVERYTHING)
    assert "0 chart(s) failed" in charted.run("lint", "--strict", package)
    assert charted.run("show", "readme", package).startswith("<!-- Written by hack/update-chart")


def test_the_manifests_of_a_release_are_those_of_the_repository(
    release: Path, kustomized: Kustomized, tmp_path: Path
) -> None:
    folder = unpacked(release / f"{NAME}-manifests.tar.gz", tmp_path) / NAME
    for part in ("components/extender", "monitoring"):
        assert kustomized.objects(part, manifests=folder / "manifests") == kustomized.objects(part)


def test_the_context_of_the_image_has_what_its_dockerfile_copies(release: Path, tmp_path: Path) -> None:
    folder = unpacked(release / f"{NAME}-image.tar.gz", tmp_path)
    lines = (folder / "Dockerfile").read_text().splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    copied = {name for names in copies for name in names}
    assert copied | {"Dockerfile", ".dockerignore"} == {each.name for each in folder.iterdir()}


def test_the_notes_have_the_changes_of_the_version(release: Path) -> None:
    notes = (release / NOTES).read_text()
    heading, changes = section((ROOT / "CHANGELOG.md").read_text(), __version__)
    assert notes.startswith(f"# Tidelock {heading}\n\n{changes}\n")
    assert all(f"`{name}`" in notes for name in FILES - {CHECKSUMS, NOTES})


def test_the_bill_of_materials_is_of_this_version(release: Path) -> None:
    content = json.loads((release / f"{NAME}.cdx.json").read_text())
    assert content["metadata"]["component"]["version"] == __version__


def test_the_section_of_a_version_ends_before_the_next_one() -> None:
    changelog = "# Log\n\n## 1.10.0 (soon)\n\n## 1.1.0 (2026-01-01)\n\n### Added\n\n- b\n\n## 1.0.0\n\n- a\n"
    assert section(changelog, "1.1.0") == ("1.1.0 (2026-01-01)", "### Added\n\n- b")
    assert section(changelog, "1.0.0") == ("1.0.0", "- a")
    with pytest.raises(ReleaseError, match=r"expected a section 1\.2\.0"):
        section(changelog, "1.2.0")


def test_an_archive_has_no_traces_of_the_machine(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o711)
    archive(tmp_path / "a.tar.gz", {"a/run": program}, 1_000_000_000)
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        (entry,) = tar.getmembers()
    known = (entry.name, entry.mode, entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname)
    assert known == ("a/run", 0o755, 1_000_000_000, 0, 0, "", "")
