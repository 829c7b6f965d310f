import subprocess
import sys

import pytest

HEAVY = ("kopf", "kubernetes", "numpy", "typer", "rich", "textual")


def loaded(module: str) -> list[str]:
    """Return the heavy packages that the import of a module loads in a fresh interpreter."""
    code = f"import sys, {module}; print(*(set(sys.modules) & set({HEAVY})))"
    return subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    ).stdout.split()


@pytest.mark.parametrize("module", ["tidelock.client", "tidelock.client.sync"])
def test_the_client_loads_no_package_of_the_operator(module: str) -> None:
    assert loaded(module) == []


def test_a_package_of_the_operator_would_be_found() -> None:
    assert "numpy" in loaded("tidelock.cluster.columns")
