"""The installation under test: Tidelock in a cluster of real kubelets, installed as a user installs it."""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import yaml

from devcluster import Cluster, DevClusterError, wait_for
from devcluster.identity import MANIFESTS, SYSTEM_NAMESPACE, write_kustomization
from faults.history import Record, recording_all
from tidelock.kube.client import NODES, PODS, RESERVATIONS, KubeClient
from tidelock.kube.config import load_connection

T = TypeVar("T")
Json = dict[str, Any]

ROOT = MANIFESTS.parent
HA, EXTENDER = "components/ha", "components/extender"
OPERATOR = "deployment/tidelock"
PATIENCE_SECONDS = 300.0
"""For any change of the cluster. Images are loaded, and the nodes may share two cores."""
_LOAD_SECONDS = 1800
_DOCKER_SECONDS = 120
_IN_SYSTEM = f"--namespace={SYSTEM_NAMESPACE}"


class Image(NamedTuple):
    """An image that the nodes have: its name with the tag, and its ID."""

    name: str
    id: str


def load_image(tag: str, checkout: Path = ROOT) -> Image:
    """Build the image of a checkout, and load it into the nodes by the program in TIDELOCK_LOAD."""
    program = os.environ.get("TIDELOCK_LOAD", str(ROOT / "hack" / "kind" / "load"))
    name = f"tidelock:{tag}"
    done = subprocess.run(
        [program, name, str(checkout)], capture_output=True, text=True, timeout=_LOAD_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return Image(name, done.stdout.strip())


def docker(*arguments: str) -> str:
    """Run docker, which runs the nodes as containers, and return its output."""
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=_DOCKER_SECONDS, check=False
    )
    if done.returncode:
        raise DevClusterError(f"docker {' '.join(arguments)} failed: {done.stderr}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster in which the tests install, disturb and remove Tidelock."""

    cluster: Cluster

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Run kubectl with a text as its standard input, and return its output."""
        return self.cluster.kubectl(*arguments, input=text)

    def read(self, *arguments: str) -> Json:
        """Return objects that kubectl reads, such as a list of pods."""
        found: Json = json.loads(self.kubectl("get", *arguments, "--output=json"))
        return found

    def apply(self, *objects: Json) -> None:
        """Apply objects on the server."""
        everything = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self.kubectl("apply", "--server-side", "--force-conflicts", "--filename=-", text=everything)

    def install(
        self, image: Image, *parts: str, manifests: Path = MANIFESTS, pod: Json | None = None
    ) -> float:
        """Install by kustomize with an image, wait for the roll-out, and return its seconds.

        `pod` are fields of the pod's spec that a strategic merge changes.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write_kustomization(folder, *parts, manifests=manifests)
            path = folder / "kustomization.yaml"
            repository, tag = image.name.split(":")
            replaced = [{"name": "tidelock", "newName": repository, "newTag": tag}]
            # A tag may be loaded again. Only this annotation then rolls the new image out.
            marked = {"op": "add", "path": "/spec/template/metadata/annotations", "value": _mark(image)}
            target = {"kind": "Deployment", "name": "tidelock"}
            patches: list[Json] = [{"target": target, "patch": json.dumps([marked])}]
            if pod is not None:
                merged = {"metadata": {"name": "tidelock"}, "spec": {"template": {"spec": pod}}}
                merged |= {"apiVersion": "apps/v1", "kind": "Deployment"}
                patches.append({"target": target, "patch": json.dumps(merged)})
            path.write_text(
                yaml.safe_dump(yaml.safe_load(path.read_text()) | {"images": replaced, "patches": patches})
            )
            begun = time.monotonic()
            self.kubectl("apply", "--server-side", "--force-conflicts", "--kustomize", str(folder))
        self.rolled_out()
        return time.monotonic() - begun

    def rolled_out(self) -> None:
        """Wait until all replicas of the newest template are ready, and no other one is left."""

        def look() -> str:
            try:
                self.kubectl("rollout", "status", _IN_SYSTEM, OPERATOR, "--timeout=20s")
            except DevClusterError as error:
                return str(error)
            return ""

        try:
            wait_for(look, lambda seen: not seen, what="the roll-out", timeout=PATIENCE_SECONDS)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{self.condition()}") from error

    def condition(self) -> str:
        """Return the operator's pods, warnings and log, for a failure's report."""
        parts = (
            ("get", "pods", "--output=wide"),
            ("events", "--types=Warning"),
            ("logs", OPERATOR, "--tail=20", "--all-pods=true"),
        )
        return "\n".join(self.kubectl(*part, _IN_SYSTEM) for part in parts)

    def remove(self, *parts: str) -> None:
        """Remove an installation by kustomize as the docs say, with all objects of Tidelock's kinds."""
        self.kubectl(
            "delete",
            "validatingwebhookconfiguration,mutatingwebhookconfiguration",
            "tidelock",
            "--ignore-not-found",
        )
        with tempfile.TemporaryDirectory() as name:
            write_kustomization(Path(name), *parts)
            self.kubectl("delete", "--kustomize", name, "--ignore-not-found")

    def leader(self) -> str:
        """Return the name of the leading pod, or an empty text."""
        lease = self.read("lease", "tidelock", _IN_SYSTEM)
        return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]

    def operators(self) -> list[Json]:
        """Return the operator's pods that are not leaving."""
        pods: list[Json] = self.read("pods", _IN_SYSTEM, "--selector=app.kubernetes.io/name=tidelock")[
            "items"
        ]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def operator(self, name: str) -> Json:
        """Return one of the operator's pods."""
        return self.read("pod", name, _IN_SYSTEM)

    def workers(self) -> list[str]:
        """Return the names of the nodes that take ordinary pods."""
        return [node["metadata"]["name"] for node in self.read("nodes")["items"] if _takes_pods(node)]

    def until(self, what: str, probe: Callable[[], T], accept: Callable[[T], object] = bool) -> T:
        """Probe each half second until a result is accepted."""
        return wait_for(probe, accept, what=what, timeout=PATIENCE_SECONDS, interval=0.5)

    @contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """Create a namespace for the context. One that an earlier run has left is gone before."""
        self._empty(name)
        self.kubectl("delete", "namespace", name, "--ignore-not-found", "--timeout=110s")
        self.kubectl("create", "namespace", name)
        try:
            yield name
        finally:
            self._empty(name)
            self.kubectl("delete", "namespace", name, "--wait=false")

    def _empty(self, namespace: str) -> None:
        """Delete the pods of a namespace without waiting for kubelets."""
        self.kubectl("delete", "pods", "--all", f"--namespace={namespace}", "--force", "--grace-period=0")

    @asynccontextmanager
    async def recorded(self) -> AsyncIterator[tuple[KubeClient, Record]]:
        """Record pods, nodes and reservations of the cluster while the context lasts, beside a client."""
        resources = (NODES, PODS, RESERVATIONS)
        async with (
            KubeClient(load_connection(self.cluster.kubeconfig), user_agent="e2e") as client,
            recording_all(client, time.time, resources) as record,
        ):
            yield client, record
        assert record.failures == []


def _mark(image: Image) -> Json:
    return {"tidelock.dev/image-id": image.id}


def _takes_pods(node: Json) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"]["conditions"]}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")
