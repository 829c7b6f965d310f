"""What kustomize and Helm make of manifests/, without a cluster."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from devcluster.identity import MANIFESTS, SYSTEM_NAMESPACE

Manifest = dict[str, Any]

CHART = MANIFESTS / "chart"
COMPONENTS = MANIFESTS / "components"
CONFIGURATION: Manifest = yaml.safe_load((COMPONENTS / "scheduler" / "config.yaml").read_text())
OVERLAYS: Mapping[str, Manifest] = {
    "scheduler": {"configuration": CONFIGURATION},
    "extender": {"extender": {"enabled": True}},
    "ha": {"replicas": 2},
    "monitoring": {"monitoring": {"enabled": True}},
}
"""Each overlay, and the values that ask the chart for the same."""
EVERYTHING: Manifest = {key: value for values in OVERLAYS.values() for key, value in values.items()}
OWN = frozenset(
    {
        "Reservation",
        "ReservationGroup",
        "ReservationSchedule",
        "ReservationQuota",
        "ReservationQuote",
        "WaterLevel",
    }
)
FOREIGN: Mapping[str, str] = {
    "ServiceMonitor": "the Prometheus operator's",
    "PrometheusRule": "the Prometheus operator's",
    "Kustomization": "Flux's",
    "ResourceInterpreterCustomization": "Karmada's",
}
"""Kinds of CRDs that are not ours, and whose: neither schemas nor the test cluster know them."""
ADDED, GONE = "an object that was not there", "an object that is not there any more"
_TIMEOUT = 120


class RefusedError(Exception):
    """A program ended with an error; carries what it said."""


class Kustomized:
    """kustomize, as it is part of kubectl."""

    def __init__(self, kubectl: Path, folder: Path) -> None:
        """Keep kustomizations of the tests' own in a folder."""
        self._kubectl = kubectl
        self._folder = folder

    def objects(self, folder: Path) -> list[Manifest]:
        """Build a kustomization."""
        return _objects(_run([self._kubectl, "kustomize", folder]))

    def everything(self) -> list[Manifest]:
        """Build what a user would write who wants all that there is."""
        resources = [MANIFESTS / "base", MANIFESTS / "monitoring"]
        components = [COMPONENTS / name for name in ("scheduler", "extender", "ha")]
        kustomization = {
            "resources": [os.path.relpath(each, self._folder.resolve()) for each in resources],
            "components": [os.path.relpath(each, self._folder.resolve()) for each in components],
        }
        (self._folder / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        return self.objects(self._folder)


class Charted:
    """Helm and the chart."""

    def __init__(self, helm: Path, home: Path) -> None:
        """Have Helm keep its files in a folder."""
        self._helm = helm
        self._environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            **{f"HELM_{each}_HOME": str(home / each.lower()) for each in ("CACHE", "CONFIG", "DATA")},
        }

    def objects(
        self, values: Manifest, namespace: str = SYSTEM_NAMESPACE, chart: Path = CHART
    ) -> list[Manifest]:
        """Render the chart with these values.

        Raises:
            RefusedError: Helm would not.

        """
        flags = ("--namespace", namespace, "--values", "-")
        return _objects(self.run("template", "tidelock", chart, *flags, text=yaml.safe_dump(values)))

    def run(self, *arguments: str | Path, text: str = "") -> str:
        """Run Helm; gives its output.

        Raises:
            RefusedError: it failed.

        """
        return _run([self._helm, *arguments], text, self._environment)


def key(manifest: Manifest) -> str:
    """Name an object as people do."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def by_key(objects: Sequence[Manifest]) -> dict[str, Manifest]:
    """Index objects, no two of which may have one key."""
    found = {key(each): each for each in objects}
    assert len(found) == len(objects)
    return found


def differences(before: Any, after: Any, path: str = "") -> Manifest:
    """Name what differs by its path, with what it is afterwards; None is nothing."""
    if isinstance(before, dict) and isinstance(after, dict):
        found: Manifest = {}
        for name in before.keys() | after.keys():
            found |= differences(before.get(name), after.get(name), f"{path}.{name}" if path else name)
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        found = {}
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            found |= differences(old, new, f"{path}[{index}]")
        return found
    return {} if before == after else {path: after}


def changed(before: Sequence[Manifest], after: Sequence[Manifest]) -> Manifest:
    """Name what differs between two renderings."""
    old, new = by_key(before), by_key(after)
    found: Manifest = dict.fromkeys(new.keys() - old.keys(), ADDED)
    found |= dict.fromkeys(old.keys() - new.keys(), GONE)
    for each in old.keys() & new.keys():
        found |= {f"{each}: {path}": value for path, value in differences(old[each], new[each]).items()}
    return found


def _objects(text: str) -> list[Manifest]:
    return [each for each in yaml.safe_load_all(text) if each is not None]


def _run(command: Sequence[str | Path], text: str = "", environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=_TIMEOUT, check=False, env=environment
    )
    if done.returncode:
        raise RefusedError(done.stderr + done.stdout)
    return done.stdout
