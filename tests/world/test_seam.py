"""The places of production at which two runs can differ: clocks, chance, threads and signals."""

import ast
from collections.abc import Iterator
from pathlib import Path

from world.limits import PLACES

OPERATOR = Path(__file__).parents[2] / "operator" / "tidelock"
APART = ("cli", "shadow", "simulation")  # other programs

MODULES = frozenset(
    {
        "concurrent.futures",
        "faulthandler",
        "multiprocessing",
        "random",
        "secrets",
        "signal",
        "subprocess",
        "threading",
        "time",
        "uuid",
    }
)
FUNCTIONS = frozenset(
    {
        "GCCollector",
        "PlatformCollector",
        "ProcessCollector",
        "asyncio.new_event_loop",
        "asyncio.run_coroutine_threadsafe",
        "asyncio.to_thread",
        "date.today",
        "datetime.now",
        "datetime.today",
        "datetime.utcnow",
        "np.random",
        "os.fork",
        "os.getpid",
        "os.getrandom",
        "os.urandom",
        "socket.gethostname",
        "x509.random_serial_number",
    }
)
METHODS = frozenset({"add_signal_handler", "call_soon_threadsafe", "run_in_executor"})


def sources_of_chance(path: Path) -> Iterator[str]:
    """Yield each use of a clock, of chance or of a thread in a file, except types and constants."""
    tree = ast.parse(path.read_text())
    names: dict[str, str] = {}  # of the file, with their sources
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name: each.name for each in node.names if each.name in MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    types = {id(part) for annotation in annotations(tree) for part in ast.walk(annotation)}
    found = set()
    for node in ast.walk(tree):
        if id(node) in types or not isinstance(node, ast.Attribute | ast.Name):
            continue
        text = ast.unparse(node)
        base, _, attribute = text.rpartition(".")
        if any(text.endswith(f".{name}") or text == name for name in FUNCTIONS):
            found.add(text)
        elif attribute in METHODS:
            found.add(attribute)
        else:
            source = f"{names[base]}.{attribute}" if base in names else names.get(text, "")
            if source and source not in MODULES and not source.rpartition(".")[2].isupper():
                found.add(source)
    yield from sorted(found)


def annotations(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all types of a file."""
    for node in ast.walk(tree):
        written = getattr(node, "annotation", None) or getattr(node, "returns", None)
        if isinstance(written, ast.AST):
            yield written


def places(folder: Path) -> Iterator[str]:
    """Yield all places below a folder."""
    for path in sorted(folder.rglob("*.py")):
        module = path.relative_to(folder)
        if module.parts[0] not in APART:
            yield from (f"{module}: {name}" for name in sources_of_chance(path))


def test_each_clock_thread_and_source_of_chance_is_known_to_the_world() -> None:
    """A new one makes runs of the world differ. Pass it as an argument, or list how the world replaces it."""
    assert sorted(places(OPERATOR)) == sorted(PLACES)


def test_each_kind_of_use_is_found(tmp_path: Path) -> None:
    (tmp_path / "cli").mkdir()
    (tmp_path / "cli" / "any.py").write_text("import time\ntime.time()\n")
    (tmp_path / "types.py").write_text(
        "from random import Random\ndef f(rng: Random) -> Random: return rng\n"
    )
    (tmp_path / "some.py").write_text(
        "import time as t, random\n"
        "from random import Random\n"
        "from datetime import datetime\n"
        "from threading import Thread as T\n"
        "import asyncio, os\n"
        "def f(clock=t.monotonic): random.random(); Random(); datetime.now(); T()\n"
        "async def g(): await asyncio.to_thread(f); os.urandom(1)\n"
        "async def h(): asyncio.get_running_loop().run_in_executor(None, f)\n"
    )
    assert list(places(tmp_path)) == [
        "some.py: asyncio.to_thread",
        "some.py: datetime.now",
        "some.py: os.urandom",
        "some.py: random.Random",
        "some.py: random.random",
        "some.py: run_in_executor",
        "some.py: threading.Thread",
        "some.py: time.monotonic",
    ]
