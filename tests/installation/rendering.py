"""The renderings of manifests/ by kustomize and by Helm, without a cluster."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from devcluster.identity import COMPONENTS, MANIFESTS, SYSTEM_NAMESPACE, write_kustomization

Manifest = dict[str, Any]

CHART = MANIFESTS / "chart"
CONFIGURATION: Manifest = yaml.safe_load((COMPONENTS / "scheduler" / "config.yaml").read_text())
PARTS: Mapping[str, Manifest] = {
    "components/scheduler": {"configuration": CONFIGURATION},
    "components/extender": {"extender": {"enabled": True}},
    "components/ha": {"replicas": 2},
    "components/provisioning-requests": {"provisioningRequests": {"enabled": True}},
    "components/autoscalers": {"autoscalers": {"enabled": True}},
    "components/karmada": {"karmada": {"cluster": "member1"}},
    "monitoring": {"monitoring": {"enabled": True}},
    "components/pod-groups": {"podGroups": {"enabled": True}},
}
"""Each part that is added to the base, and the values with which the chart renders the same objects."""
EVERYTHING: Manifest = {key: value for values in PARTS.values() for key, value in values.items()}
PLATFORM: Manifest = EVERYTHING | {
    "commonLabels": {"app.kubernetes.io/part-of": "platform"},
    "image": {"repository": "example.org/tidelock", "pullPolicy": "Always"},
    "imagePullSecrets": [{"name": "registry"}],
    "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
    "serviceAccount": {"annotations": {"example.org/role": "tidelock"}},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {
            "topologyKey": "topology.kubernetes.io/zone",
            "maxSkew": 1,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "tidelock"}},
        }
    ],
    "podAnnotations": {"example.org/inject": "false"},
    "podLabels": {"example.org/tier": "system"},
    "ports": {"http": 18080, "https": 18443},
    "podSecurityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
    "startupProbe": {"failureThreshold": 300},
    "livenessProbe": {"initialDelaySeconds": 5, "failureThreshold": 6},
    "readinessProbe": {"timeoutSeconds": 2},
    "logLevel": "debug",
    "extraArgs": ["--earmark-after-seconds", "30"],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "extraVolumes": [{"name": "authorities", "configMap": {"name": "authorities"}}],
    "extraVolumeMounts": [{"name": "authorities", "mountPath": "/etc/authorities", "readOnly": True}],
    "extender": {"enabled": True, "failurePolicy": "Ignore"},
    "certManager": {"enabled": True, "issuerRef": {"name": "internal", "kind": "ClusterIssuer"}},
    "metrics": {"tokenSecret": {"name": "scrapes", "key": "bearer"}},
    "webView": {
        "enabled": True,
        "service": {"annotations": {"example.org/a": "b"}, "type": "NodePort", "port": 8080},
        "ingress": {
            "enabled": True,
            "className": "nginx",
            "annotations": {"example.org/a": "b"},
            "hosts": ["tidelock.example.org"],
            "tls": [{"secretName": "web", "hosts": ["tidelock.example.org"]}],
        },
    },
    "monitoring": {
        "enabled": True,
        "namespace": "default",
        "labels": {"release": "prometheus"},
        "dashboard": {"annotations": {"grafana_folder": "Scheduling"}},
    },
    "networkPolicy": {
        "ingressFrom": [
            {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
        ],
        "egressPorts": [8443],
    },
}
"""Values of a platform team: nearly all that the chart has, at once."""
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
    "Certificate": "cert-manager's",
    "Kustomization": "Flux's",
    "ResourceInterpreterCustomization": "Karmada's",
}
"""Kinds of other projects, with the projects. Neither schemas nor the test cluster know these kinds."""
ADDED, GONE = "an object that was not there", "an object that is not there any more"
_TIMEOUT = 120


class RefusedError(Exception):
    """A program ended with an error. The text is its output."""


class Kustomized:
    """kustomize, as a part of kubectl."""

    def __init__(self, kubectl: Path, folder: Path) -> None:
        """Keep the kustomizations of the tests in a folder."""
        self._kubectl = kubectl
        self._folder = folder

    def objects(
        self, *parts: str, manifests: Path = MANIFESTS, patches: Sequence[Manifest] = ()
    ) -> list[Manifest]:
        """Build a kustomization of the base with these parts, and with patches of a user."""
        write_kustomization(self._folder, *parts, manifests=manifests, patches=patches)
        return _objects(_run([self._kubectl, "kustomize", self._folder]))


class Charted:
    """Helm, with the chart."""

    def __init__(self, helm: Path, home: Path) -> None:
        """Make Helm keep its files in a folder."""
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
            RefusedError: Helm refused the chart or the values.

        """
        flags = ("--namespace", namespace, "--values", "-")
        return _objects(self.run("template", "tidelock", chart, *flags, text=yaml.safe_dump(values)))

    def run(self, *arguments: str | Path, text: str = "") -> str:
        """Run Helm, and return its output.

        Raises:
            RefusedError: Helm failed.

        """
        return _run([self._helm, *arguments], text, self._environment)


def key(manifest: Manifest) -> str:
    """Return the kind and the name of an object, as in `Service/tidelock`."""
    return f"{manifest['kind']}/{manifest['metadata']['name']}"


def by_key(objects: Sequence[Manifest]) -> dict[str, Manifest]:
    """Index objects by their keys, which must be unique."""
    found = {key(each): each for each in objects}
    assert len(found) == len(objects)
    return found


def differences(before: Any, after: Any, path: str = "") -> Manifest:
    """Return the later value of each difference by its path. None means that the later value is absent."""
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
    """Return the differences between two renderings, by object and path."""
    old, new = by_key(before), by_key(after)
    found: Manifest = dict.fromkeys(new.keys() - old.keys(), ADDED)
    found |= dict.fromkeys(old.keys() - new.keys(), GONE)
    for each in old.keys() & new.keys():
        found |= {f"{each}: {path}": value for path, value in differences(old[each], new[each]).items()}
    return found


def _objects(text: str) -> list[Manifest]:
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each is not None]


def _run(command: Sequence[str | Path], text: str = "", environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=_TIMEOUT, check=False, env=environment
    )
    if done.returncode:
        raise RefusedError(done.stderr + done.stdout)
    return done.stdout
