"""The blocks of README and docs that tests replay in order, and the reasons why they omit other commands.

Blocks of other languages are files: `unit/docs` checks each by its language.
"""

from collections.abc import Mapping

from documents import ROOT, Block, Command

README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
TOUR = ROOT / "docs" / "kubectl.md"

EXAMPLES: Mapping[str, tuple[int, ...]] = {
    "reservations": (4,),
    "two-phase": (4,),
    "devices": (4,),
    "reuse": (4,),
    "leases": (4,),
    "borrowing": (4,),
    "defragmentation": (4, 4),
    "groups": (4, 4, 4),
    "quotas": (8,),
    "queue": (4,),
    "windows": (8,),
    "schedules": (8,),
    "quotes": (8,),
}
"""Pages that begin with a replayed example, and the cores of the nodes worker-1, worker-2… of each."""
_SECTIONS = {README: ("Quick start",), ROOT / "docs" / "quotas.md": ("Priority and preemption",)}

NOT_REPLAYED_OUTPUTS: Mapping[str, str] = {
    "docs/shadow.md": "tests/unit/shadow/test_report.py compares it. The example takes ten minutes",
    "docs/water-levels.md": "needs a cluster with 125 measured nodes. The tutorial has a smaller one",
}
"""The reason for each page with output that no test replays."""

NOT_REPLAYED: Mapping[str, str] = {
    "base64": "decodes the output of the command before it",
    "cp": "copies files whose existence is checked",
    "curl": "is run in tests/cluster/test_client.py",
    "docker": "needs a Docker engine and a registry",
    "export": "sets variables that later commands use",
    "go": "fetches a generator, which was tried by hand",
    "hack/kind/up": "needs a Docker engine",
    "hack/mutate": "takes a quarter of an hour. tests/unit/mutation has its tests",
    "helm": "is run in tests/cluster/test_docs.py, as a dry run",
    "jq": "is no part of the project",
    "kubectl": "is run in tests/cluster/test_docs.py. A command that writes is a dry run there",
    "kubectl tidelock": "is replayed with its output in docs/kubectl.md",
    "kubectl tidelock approve": "is run in tests/unit/cli/test_watch.py",
    "make": "is CI itself, or takes from minutes to hours. That the target exists is checked",
    "mkdir": "is part of every system",
    "openssl": "is run in tests/cluster/test_docs.py",
    "pip": "is run in tests/installation/test_package.py",
    "pytest": "runs the tests themselves. That their files exist is checked",
    "python -m bench.": "measures for minutes to hours. Its options are read",
    "python -m faults": "runs what tests/world/test_faults.py runs. Its options are read",
    "python -m world": "prints thousands of lines. tests/world/test_replay.py compares their digests",
    "python docs/examples/manager/": "is run in tests/cluster/test_example_manager.py",
    "tidelock run": "runs until it is stopped. Tests in tests/cluster start it, and its options are read",
    "tidelock shadow": "runs for a day. tests/cluster/test_shadow.py runs a shorter one",
    "tidelock simulate": "takes minutes. tests/unit/simulation/test_command.py runs smaller days",
}
"""The reason for each command that no test replays in its order, by the beginning of the command."""


def example(name: str) -> str:
    """Return the path of a page that begins with a replayed example, relative to the project."""
    return f"docs/{name}.md"


def is_replayed(block: Block) -> bool:
    """Return whether a test replays a block in its order.

    These are the tutorial, the screens of kubectl tidelock, the examples that begin a page and some sections.
    """
    if block.page == TUTORIAL or block.section in _SECTIONS.get(block.page, ()):
        return True
    if block.page == TOUR:
        return block.language == "console"
    return not block.section and block.page in {ROOT / example(name) for name in EXAMPLES}


def reason(command: Command) -> str:
    """Return the reason why a command is not replayed, by the longest beginning, or an empty text."""
    typed = " ".join(command.words).removeprefix(".venv/bin/")
    found = [each for each in NOT_REPLAYED if typed.startswith(each if each[-1] in "./" else f"{each} ")]
    return NOT_REPLAYED[max(found, key=len)] if found else ""
