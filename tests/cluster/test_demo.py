import os
import subprocess
import sys
from pathlib import Path

import pytest

from demo.story import CHAPTERS
from devcluster.binaries import wanted_version
from devcluster.build import NEWEST

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("options", [[], ["--kubelets"]], ids=["kwok", "kubelets"])
def test_the_demo_succeeds_and_shows_all_chapters(options: list[str]) -> None:
    if options and wanted_version() != NEWEST:
        pytest.skip("a kubelet must not be newer than its API server")
    demo = run("demo", *options)
    assert demo.returncode == 0, demo.stdout + demo.stderr
    assert demo.stdout.rstrip().endswith("The story went as it should.")
    assert [title for title, _ in CHAPTERS if title not in demo.stdout] == []


def test_the_screens_of_the_plugin_are_those_of_its_page() -> None:
    demo = run("demo.tour", "--check")
    assert demo.returncode == 0, demo.stdout + demo.stderr


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a module of the demo on a control plane of its own."""
    environment = {**os.environ, "PYTHONPATH": "operator:hack", "TIDELOCK_PROVIDER": "go"}
    environment.pop("TIDELOCK_KUBECONFIG", None)
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
