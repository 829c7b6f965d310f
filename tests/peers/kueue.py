"""The real Kueue beside a control plane of this machine, and the objects of its users."""

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from cluster.api import Manifest
from cluster.live import Live, Pod, condition
from cluster.requests import Request, install_provisioning_requests
from cluster.world import World
from devcluster import Component, LocalCluster, wait_for
from devcluster.build import find_module
from devcluster.keys import Keys
from devcluster.loopback import HOST, Health, free_ports
from devcluster.reaper import kept
from devcluster.tools import SOURCES, find_program
from tidelock.integrations.provisioning_requests.request import PROVISIONING_REQUESTS
from tidelock.kube.client import PODS, ApiResource
from tidelock.model.instants import format_instant

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"
WORKLOADS = ApiResource(GROUP, VERSION, "workloads", "Workload")
LOCAL_QUEUES = ApiResource(GROUP, VERSION, "localqueues", "LocalQueue")
CLUSTER_QUEUES = ApiResource(GROUP, VERSION, "clusterqueues", "ClusterQueue", namespaced=False)
ADMISSION_CHECKS = ApiResource(GROUP, VERSION, "admissionchecks", "AdmissionCheck", namespaced=False)
PRIORITIES = ApiResource(GROUP, VERSION, "workloadpriorityclasses", "WorkloadPriorityClass", namespaced=False)
JOBS = ApiResource("batch", "v1", "jobs", "Job")
_CRDS = "config/components/crd/bases"
# Kueue reads the certificate of its metrics from a fixed place in /etc.
_METRICS_CERTIFICATE = "kueue/metrics/certs"


@contextmanager
def running_kueue(cluster: LocalCluster, directory: Path) -> Iterator[Component]:
    """Install Kueue's CRDs and that of ProvisioningRequests, and run Kueue without its webhooks."""
    install_provisioning_requests(cluster)
    crds = find_module(SOURCES["kueue"].module, "sigs.k8s.io/kueue") / _CRDS
    cluster.kubectl("apply", "--server-side", "-f", str(crds))
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", "-f", str(crds))
    cluster.kubectl("create", "namespace", "kueue-system")
    component = _describe(cluster, directory)
    with kept(component):
        yield component


def _describe(cluster: LocalCluster, directory: Path) -> Component:
    health, metrics, webhook = free_ports(3)
    keys = Keys.under(cluster.directory / "keys")
    private_etc = directory / "etc"
    certificates = private_etc / _METRICS_CERTIFICATE
    certificates.mkdir(parents=True)
    shutil.copyfile(keys.server_certificate, certificates / "tls.crt")
    shutil.copyfile(keys.server_key, certificates / "tls.key")
    configuration = directory / "kueue.yaml"
    configuration.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "config.kueue.x-k8s.io/v1beta2",
                "kind": "Configuration",
                "health": {"healthProbeBindAddress": f"{HOST}:{health}"},
                "metrics": {"bindAddress": f"{HOST}:{metrics}"},
                "webhook": {"host": HOST, "port": webhook, "certDir": str(certificates)},
                "leaderElection": {"leaderElect": False},
                "internalCertManagement": {"enable": False},
                "integrations": {"frameworks": ["batch/job"]},
                "featureGates": {"VisibilityOnDemand": False},
            }
        )
    )
    script = f"mount --bind {private_etc} /etc && exec {find_program('kueue')} --config={configuration}"
    return Component(
        name="kueue",
        command=(
            "/usr/bin/env",
            f"KUBECONFIG={cluster.kubeconfig}",
            *("unshare", "--map-root-user", "--mount", "sh", "-c", script),
        ),
        health=Health(health, "/readyz", None),
        directory=directory,
    )


class Job(Live):
    """A Job that Kueue admits. The test plays the kubelet of its pods."""

    def until_started(self) -> None:
        """Wait until Kueue has started the job."""
        self.until(lambda job: job["spec"].get("suspend") is False, "be started")

    @property
    def suspended(self) -> bool:
        """Whether the job must not have pods now."""
        return bool(self.api.get(self.path)["spec"]["suspend"])

    def pods(self, count: int) -> list[Pod]:
        """Wait until the job has that many bound pods, and return them."""

        def bound() -> list[Manifest]:
            path = f"{PODS.collection(self.namespace)}?labelSelector=batch.kubernetes.io/job-name={self.name}"
            return [each for each in self.api.get(path)["items"] if each["spec"].get("nodeName")]

        found = wait_for(
            bound, until=lambda pods: len(pods) == count, what=f"{count} bound pods of {self.name}"
        )
        return [Pod(self.api, PODS, each) for each in found]

    def finish(self, count: int) -> None:
        """End all pods with success, and wait until the job is complete."""
        for pod in self.pods(count):
            pod.merge({"status": {"phase": "Succeeded"}}, "status")
        self.until(lambda job: condition(job["status"], "Complete").get("status") == "True", "be complete")

    def workload(self) -> Live:
        """Wait for the Workload that Kueue makes for the job, and return it."""

        def owned() -> list[Manifest]:
            found = self.api.get(WORKLOADS.collection(self.namespace))["items"]
            return [each for each in found if each["metadata"]["ownerReferences"][0]["uid"] == self.uid]

        return Live(self.api, WORKLOADS, wait_for(owned, what=f"the Workload of {self.name}")[0])

    def request(self, attempt: int = 1) -> Request:
        """Wait for the ProvisioningRequest of an attempt, and return it."""
        path = PROVISIONING_REQUESTS.item(f"{self.workload().name}-hold-{attempt}", self.namespace)

        def found() -> list[Manifest]:
            requests = self.api.get(PROVISIONING_REQUESTS.collection(self.namespace))["items"]
            return [each for each in requests if path.endswith(f"/{each['metadata']['name']}")]

        return Request(
            self.api, PROVISIONING_REQUESTS, wait_for(found, what=f"attempt {attempt} of {self.name}")[0]
        )


class Team:
    """The jobs of one test, in a queue of the test's namespace."""

    def __init__(self, world: World, cluster_queue: str) -> None:
        self.world = world
        self._create(LOCAL_QUEUES, {"metadata": {"name": "team"}, "spec": {"clusterQueue": cluster_queue}})

    def job(
        self,
        name: str,
        pods: int = 2,
        cpu: str = "2",
        annotations: Mapping[str, str] | None = None,
        priority: str = "",
    ) -> Job:
        """Create a suspended job for the nodes of the test."""
        labels = {"kueue.x-k8s.io/queue-name": "team"}
        if priority:
            labels["kueue.x-k8s.io/priority-class"] = priority
        template = {"spec": self.world.pod_spec(cpu) | {"restartPolicy": "Never"}}
        manifest = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "metadata": {"name": name, "labels": labels, "annotations": dict(annotations or {})},
            "spec": {"suspend": True, "parallelism": pods, "completions": pods, "template": template},
        }
        return Job(self.world.api, JOBS, self._create(JOBS, manifest))

    def _create(self, resource: ApiResource, manifest: Manifest) -> Manifest:
        whole = {"apiVersion": resource.api_version, "kind": resource.kind} | manifest
        return self.world.api.create(resource.collection(self.world.namespace), whole)


def cluster_queue(name: str, cpu: str, checks: tuple[str, ...] = ("hold",)) -> dict[str, Any]:
    """Return a ClusterQueue with a quota of cores, which preempts jobs of lower priority."""
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    return {
        "apiVersion": CLUSTER_QUEUES.api_version,
        "kind": CLUSTER_QUEUES.kind,
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "admissionChecksStrategy": {"admissionChecks": [{"name": each} for each in checks]},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        },
    }


def check_state(workload: Manifest, name: str) -> Manifest:
    """Return the state of an admission check of a workload, empty if it is absent."""
    states: list[Manifest] = workload.get("status", {}).get("admissionChecks", [])
    return next((each for each in states if each["name"] == name), {})


def approve(workload: Live, name: str) -> None:
    """Mark an admission check as ready, as its controller would."""
    now = format_instant(int(time.time()))
    state = {"name": name, "state": "Ready", "message": "approved", "lastTransitionTime": now}
    manifest = {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": workload.name, "namespace": workload.namespace},
        "status": {"admissionChecks": [state]},
    }
    workload.api.apply(f"{workload.path}/status", manifest)
