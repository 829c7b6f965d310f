"""Plugins of other distributions: the documented example, installed as users install it, and broken ones."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import EntryPoint, PathDistribution
from pathlib import Path

import pytest

from tidelock.framework.config_file import ConfigurationError
from tidelock.framework.installed import ENTRY_POINT_GROUP, load_plugins

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "docs/examples/plugin"

DECIDE = """
import sys
from functools import partial
from pathlib import Path

from builders import NOW, node, pod
from tidelock.framework.config import read_configuration
from tidelock.framework.installed import load_plugins
from tidelock.plugins.registry import BUILTINS
from tidelock.clock import SystemClock
from tidelock.scheduler.scheduler_core import assemble_core

text = Path(sys.argv[1]).read_text()
read = read_configuration(text, BUILTINS, partial(load_plugins, builtin=BUILTINS.registry))
decider = assemble_core(read, SystemClock()).decider
for each in (node("node-a", cpu="4"), node("node-b", cpu="4", pods="10"), node("node-c", cpu="2")):
    decider.cache.put_node(each)
for name, cpu in (("web-0", "1"), ("web-1", "1"), ("web-2", "1"), ("web-3", "3")):
    decider.queue.upsert(pod(name, requests={"cpu": cpu}), NOW)
for _ in range(4):
    outcome = decider.step(NOW).outcome
    print(getattr(outcome, "node_name", None) or outcome.diagnosis.message)
print([(plugin.name, weight) for plugin, weight in decider.profile.score][-2:])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the example into a folder, from a copy because building writes files into the source."""
    folder = tmp_path_factory.mktemp("example")
    source = shutil.copytree(EXAMPLE, folder / "source")
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        *offline,
        "--target",
        str(folder / "site"),
        str(source),
    ]
    subprocess.run(command, check=True, timeout=100)
    return folder / "site"


def run(site: Path, config: Path) -> subprocess.CompletedProcess[str]:
    """Decide a few pods in a separate process in which the example is installed."""
    path = os.pathsep.join(map(str, (site, ROOT / "operator", ROOT / "tests")))
    return subprocess.run(
        [sys.executable, "-c", DECIDE, str(config)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_example_plugins_take_part_in_decisions(site: Path) -> None:
    done = run(site, EXAMPLE / "config.yaml")

    *placed, refused, scores = done.stdout.splitlines()
    assert placed == ["node-a", "node-b", "node-a"]
    assert refused.startswith("0/3 nodes are available: 1 node(s) without spare cores, 2 Insufficient cpu.")
    assert scores == "[('Reservation', 5000), ('FewestPods', 2)]"


def test_args_that_the_example_refuses_are_reported(site: Path, tmp_path: Path) -> None:
    text = (EXAMPLE / "config.yaml").read_text().replace("cores: 2", "cores: few")
    (tmp_path / "config.yaml").write_text(text)

    told = run(site, tmp_path / "config.yaml").stderr.strip().splitlines()[-1]

    assert told.endswith(
        "profile tidelock-scheduler: plugin SpareCores: cores: 'few' is not a number of at least 0"
    )


def offer(folder: Path, name: str, value: str, distribution: str = "acme") -> EntryPoint:
    """Install a distribution that offers a plugin."""
    info = folder / f"{distribution}-1.2.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\n{name} = {value}\n")
    (point,) = PathDistribution(info).entry_points
    return point


def refusal(*points: EntryPoint, wanted: str = "Acme") -> str:
    with pytest.raises(ConfigurationError) as refused:
        load_plugins({wanted}, {"NodeName"}, points)
    return str(refused.value)


def test_only_the_wanted_plugins_are_imported(tmp_path: Path) -> None:
    loaded = load_plugins(
        {"Acme", "Nobody"},
        {"NodeName"},
        [
            offer(tmp_path, "Acme", "tidelock.plugins.node_name:NodeName"),
            offer(tmp_path, "Broken", "no.such.module:Plugin", "broken"),
        ],
    )
    assert list(loaded) == ["Acme"]


def test_the_name_of_a_built_in_plugin_is_refused(tmp_path: Path) -> None:
    assert refusal(offer(tmp_path, "NodeName", "x:y")) == (
        "distribution acme 1.2: plugin NodeName: there is a built-in plugin of that name"
    )


def test_two_distributions_cannot_have_plugins_of_the_same_name(tmp_path: Path) -> None:
    first, second = offer(tmp_path, "Acme", "x:y"), offer(tmp_path, "Acme", "z:y", "ecma")
    assert refusal(first, second) == (
        "distribution ecma 1.2: plugin Acme: distribution acme 1.2 has one of that name"
    )


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("no_such_module:Plugin", "can't be imported from no_such_module:Plugin: ModuleNotFoundError("),
        ("tidelock.plugins:Nothing", "can't be imported from tidelock.plugins:Nothing: AttributeError("),
        ("tidelock:__version__", "tidelock:__version__ is not callable"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_reported_with_its_distribution(
    tmp_path: Path, value: str, error: str
) -> None:
    told = refusal(offer(tmp_path, "Acme", value))
    assert told.startswith("distribution acme 1.2: plugin Acme")
    assert error in told
