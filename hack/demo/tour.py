"""A writer of the screens of docs/kubectl.md: python -m demo.tour [--check].

The screens are from a run on a real control plane. With --check it writes nothing. The exit status is then 1
if a screen differs from that of the page by more than times, names of processes and widths of columns and
bars.
"""

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from demo.stage import own_control_plane
from demo.world import SCHEDULER
from devcluster import Cluster, wait_for
from tidelock.model.usage_annotations import NODE_LEVEL, Measured, NodeLevel, Stat, encode_node_level

_ROOT = Path(__file__).resolve().parents[2]
_PAGE = _ROOT / "docs" / "kubectl.md"
_PICTURE = _ROOT / "docs" / "images" / "timeline.png"
# The parts of screens that differ from run to run, and counts that grow with each new right of the operator.
_UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_VARYING = re.compile(
    rf"\d{{4}}-\d\d-\d\dT[\d:.]+Z|\b\d\d:\d\d\b|\b(\d+m)?\d+s\b|\b(29|30)m\b|\S+_{_UUID}|{_UUID}\.\d+"
    r"|leadership \d+|all \d+|[█░▒|]+"
)
_NAMESPACE = "shop"
_LEVELS = {"kind-worker": (61.0, 48.0), "kind-worker2": (34.0, 52.0), "kind-worker3": (22.0, 40.0)}

_SURGE = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: surge}
spec:
  replicas: 2
  selector: {matchLabels: {app: surge}}
  template:
    metadata: {labels: {app: surge}}
    spec:
      schedulerName: tidelock-scheduler
      containers:
      - {name: main, image: busybox, resources: {requests: {cpu: 500m}}}
---
apiVersion: tidelock.dev/v1alpha1
kind: Reservation
metadata: {name: nightly}
spec:
  resources: {cpu: "3"}
  owners: [{pod: {name: nightly}}]
  ttlSeconds: 600
"""
_BAD = """\
apiVersion: tidelock.dev/v1alpha1
kind: Reservation
metadata: {name: web-2}
spec:
  resources: {cpu: "1"}
  owners: [{pod: {name: web-2}}]
  ttlSeconds: 0
---
apiVersion: tidelock.dev/v1alpha1
kind: Reservation
metadata: {name: web-3}
spec:
  resources: {cpu: "1"}
  owners: [{pod: {name: web-3}}]
  ttlSeconds: 600
  expireAt: "2030-01-01T00:00:00Z"
"""


class Tour:
    """Commands in one folder and namespace, and their output."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self.screens: dict[str, list[str]] = {}

    def furnish(self) -> None:
        """Create the objects and files that the commands use."""
        self._cluster.kubectl("create", "namespace", _NAMESPACE)
        self._cluster.kubectl("config", "set-context", "--current", f"--namespace={_NAMESPACE}")
        for node, (cpu, memory) in _LEVELS.items():
            use: Mapping[Measured, Stat] = {"cpu": Stat(*[cpu] * 3), "memory": Stat(*[memory] * 3)}
            level = encode_node_level(NodeLevel(time.time(), {"15m": use}))
            self._cluster.kubectl("annotate", "node", node, f"{NODE_LEVEL}={level}")
        self.pod("db-0", "3", "kind-worker2")
        self._until_pod("db-0", lambda pod: pod["spec"].get("nodeName"))
        self._cluster.kubectl("cordon", "kind-worker3")
        (self._folder / "surge.yaml").write_text(_SURGE)
        (self._folder / "locks.yaml").write_text(_BAD)

    def pod(self, name: str, cpu: str, node: str = "") -> None:
        """Create a pod, with a selector for one node if one is given."""
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        spec: dict[str, Any] = {"schedulerName": SCHEDULER, "containers": [container]}
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
        self._cluster.kubectl("create", "-f", "-", input=yaml.safe_dump(manifest))

    def until_refused(self, name: str) -> None:
        """Wait until a pod has a condition, as it fits no node."""
        self._until_pod(name, lambda pod: pod["status"].get("conditions"))

    def show(self, screen: str, *arguments: str) -> str:
        """Run a command of the plugin, keep it with its output, and return its standard output."""
        environment = os.environ | {"KUBECONFIG": str(self._cluster.kubeconfig), "NO_COLOR": "1"}
        done = subprocess.run(
            [sys.executable, "-c", "from tidelock.cli.main import main; main()", *arguments],
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if "Traceback" in done.stderr:
            raise RuntimeError(done.stderr)
        typed = f"$ kubectl tidelock {' '.join(arguments)}"
        printed = "\n".join(line.rstrip() for line in (done.stderr + done.stdout).splitlines())
        status = f"\n(exit status {done.returncode})" if done.returncode else ""
        self.screens.setdefault(screen, []).append(f"{typed}\n{printed}{status}")
        print(f"{self.screens[screen][-1]}\n")
        return done.stdout

    def _until_pod(self, name: str, accept: Callable[[Any], object]) -> None:
        wait_for(
            lambda: json.loads(self._cluster.kubectl("get", "pod", name, "-o", "json")),
            until=accept,
            what=f"pod {name}",
        )


def run_chapters(tour: Tour) -> None:
    """Run the commands of the page, in its order."""
    tour.furnish()
    tour.show(
        "reserve", "reserve", "web-0", "-r", "cpu=2,memory=4Gi", "--node", "kind-worker", "--ttl", "30m"
    )
    tour.show("reserve", "reserve", "web-1", "-r", "cpu=3", "--node", "kind-worker", "--deadline", "0s")
    tour.show("quote", "quote", "-r", "cpu=500m,memory=1Gi")
    tour.show("quote", "quote", "-r", "cpu=3", "--node", "kind-worker")
    tour.pod("report", "3")
    tour.until_refused("report")
    tour.show("status", "status")
    tour.show("why", "why", "report")
    tour.show("why", "why", "reservation/web-0")
    tour.show("simulate", "simulate", "-f", "surge.yaml")
    tour.show("timeline", "timeline", "kind-worker", "--since", "30m", "--png", _PICTURE.name)
    tour.show("lint", "lint", "-f", "locks.yaml")
    tour.show("check", "check")
    held = tour.show(
        "commit", "reserve", "hold-0", "-r", "cpu=500m", "--commit-within", "30s", "--ttl", "30m"
    )
    tour.show("commit", "commit", "hold-0", "--token", held.split()[-1])


def written(page: str, screens: dict[str, list[str]]) -> str:
    """Return a page with the screens, each in the code block after the comment that names it."""
    for name, shown in screens.items():
        head = f"<!-- {name} -->\n```console\n"
        before, found, after = page.partition(head)
        if not found:
            raise ValueError(f"{_PAGE}: there is no code block after <!-- {name} -->")
        page = before + head + "\n\n".join(shown) + "\n```\n" + after.partition("\n```\n")[2]
    return page


def differences(page: str, screens: dict[str, list[str]]) -> list[str]:
    """Return the lines of a page that would change by more than varying parts, as a diff."""
    expected, found = (
        [" ".join(_VARYING.sub("…", line).split()) for line in text.splitlines()]
        for text in (page, written(page, screens))
    )
    return list(difflib.unified_diff(expected, found, "the page", "this run", lineterm="", n=0))


def main() -> int:
    """Set up, run all commands, write or check the page and clean up. Return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare the page, and write nothing")
    check: bool = parser.parse_args().check
    with (
        tempfile.TemporaryDirectory(prefix="tidelock-tour-") as folder,
        own_control_plane(Path(folder)) as stage,
    ):
        tour = Tour(stage.cluster, Path(folder))
        run_chapters(tour)
        page = _PAGE.read_text(encoding="utf-8")
        if check:
            different = differences(page, tour.screens)
            print("\n".join(different))
            return bool(different)
        _PAGE.write_text(written(page, tour.screens), encoding="utf-8")
        shutil.copy(Path(folder) / _PICTURE.name, _PICTURE)
    return 0


if __name__ == "__main__":
    sys.exit(main())
