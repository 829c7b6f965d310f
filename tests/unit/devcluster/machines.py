import os
import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """A machine with an empty home and, at first, no tools on PATH."""

    home: Path
    programs: Path

    def install(self, name: str, script: str) -> None:
        """Put a bash script on PATH."""
        program = self.programs / name
        program.write_text(f"#!/bin/bash\n{script}\n")
        program.chmod(0o755)

    def link(self, *names: str) -> None:
        """Put real programs on PATH."""
        for name in names:
            real = shutil.which(name, path=os.defpath)
            assert real is not None, name
            (self.programs / name).symlink_to(real)
