import sys
from pathlib import Path

_TAIL_LINES = 20


def say(message: str, end: str = "\n") -> None:
    """Print a progress message to standard error, as standard output is for results."""
    print(message, end=end, file=sys.stderr, flush=True)


def tail(log: Path) -> str:
    """Return the last lines of a log file, indented."""
    lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(f"  {line}" for line in lines)
