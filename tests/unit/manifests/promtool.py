"""promtool, which checks rules as Prometheus does."""

import subprocess
from pathlib import Path


def run_promtool(promtool: Path, *arguments: str | Path) -> None:
    """Run a command of promtool, and fail if it finds an error."""
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
