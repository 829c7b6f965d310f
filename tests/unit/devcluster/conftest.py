import os
from pathlib import Path

import pytest

from unit.devcluster.machines import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return the machine that the code under test sees."""
    made = Machine(home=tmp_path / "home", programs=tmp_path / "bin")
    made.home.mkdir()
    made.programs.mkdir()
    for name in [*os.environ]:
        if name.startswith(("TIDELOCK_", "XDG_", "KUBE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("PATH", str(made.programs))
    return made
