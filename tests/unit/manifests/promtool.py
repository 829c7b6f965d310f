"""promtool, which knows what Prometheus takes."""

import subprocess
from pathlib import Path


def run_promtool(promtool: Path, *arguments: str | Path) -> None:
    """Run a command of promtool, which must find nothing wrong."""
    done = subprocess.run([promtool, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
