"""ProvisioningRequests and the pods that consume them, as Kueue creates them."""

from collections.abc import Mapping

from cluster.api import Manifest
from cluster.live import Live, Pod, condition
from cluster.world import World
from devcluster import Cluster, DevClusterError, wait_for
from devcluster.build import find_module
from devcluster.tools import SOURCES
from tidelock.integrations.provisioning_requests.request import (
    CLASS_NAME,
    POD_TEMPLATES,
    PROVISIONING_REQUESTS,
)
from tidelock.kube.client import RESERVATIONGROUPS
from tidelock.model.api.owners import CONSUMED_REQUEST

_CRD = "config/crd/autoscaling.x-k8s.io_provisioningrequests.yaml"


def install_provisioning_requests(cluster: Cluster) -> None:
    """Install the CRD of ProvisioningRequests, and wait until it is served."""
    module = find_module(SOURCES["kueue"].module, "k8s.io/autoscaler/cluster-autoscaler/apis")
    cluster.kubectl("apply", "--server-side", "-f", str(module / _CRD))

    def served() -> bool:
        try:
            cluster.kubectl("get", "provisioningrequests", "--all-namespaces")
        except DevClusterError:
            return False
        return True

    wait_for(served, what="ProvisioningRequests to be served")


class Request(Live):
    """A ProvisioningRequest."""

    def until_true(self, kind: str) -> Manifest:
        """Wait until a condition is True, and return it."""
        found = self.until(
            lambda request: _condition(request, kind).get("status") == "True", f"have {kind}=True"
        )
        return _condition(found, kind)

    def until_waiting(self, text: str) -> None:
        """Wait until the request is accepted and not provisioned, with a message that has this text."""

        def waits(request: Manifest) -> bool:
            provisioned = _condition(request, "Provisioned")
            accepted = _condition(request, "Accepted").get("status") == "True"
            return accepted and provisioned.get("status") == "False" and text in provisioned["message"]

        self.until(waits, f"wait with {text!r}")

    def conditions(self) -> dict[str, str]:
        """Return the status of each condition by its type."""
        found = self.api.get(self.path).get("status", {}).get("conditions", [])
        return {each["type"]: each["status"] for each in found}

    def groups(self) -> list[str]:
        """Return the names of the ReservationGroups that the request controls."""
        found = self.api.get(RESERVATIONGROUPS.collection(self.namespace))["items"]
        return [
            each["metadata"]["name"]
            for each in found
            if each["metadata"].get("ownerReferences", [{}])[0].get("uid") == self.uid
        ]


class Jobs:
    """Creates requests and pods in the namespace of a test as Kueue does, one request for each job."""

    def __init__(self, world: World) -> None:
        self.world = world

    def template(self, name: str, cpu: str) -> None:
        """Create a PodTemplate with one container for the nodes of the test."""
        template = {"metadata": {"labels": {"app": name}}, "spec": self.world.pod_spec(cpu)}
        self.world.api.create(
            POD_TEMPLATES.collection(self.world.namespace),
            {"metadata": {"name": name}, "template": template},
        )

    def request(
        self, name: str, pods: Mapping[str, int], parameters: Mapping[str, str] | None = None
    ) -> Request:
        """Create a request for numbers of pods, by the PodTemplates that exist."""
        sets = [{"podTemplateRef": {"name": each}, "count": count} for each, count in pods.items()]
        spec = {"provisioningClassName": CLASS_NAME, "podSets": sets, "parameters": dict(parameters or {})}
        manifest = {
            "apiVersion": PROVISIONING_REQUESTS.api_version,
            "kind": PROVISIONING_REQUESTS.kind,
            "metadata": {"name": name},
            "spec": spec,
        }
        path = PROVISIONING_REQUESTS.collection(self.world.namespace)
        return Request(self.world.api, PROVISIONING_REQUESTS, self.world.api.create(path, manifest))

    def pod(self, name: str, cpu: str = "1", *, request: str = "") -> Pod:
        """Create a pod that consumes a request, or an ordinary one."""
        metadata = {"name": name, "annotations": self.consumes(request) if request else {}}
        return self.world.pod(name, cpu, metadata=metadata)

    @staticmethod
    def consumes(request: str) -> dict[str, str]:
        """Return the annotations that Kueue gives to the pods of a request."""
        return {CONSUMED_REQUEST: request, "autoscaling.x-k8s.io/provisioning-class-name": CLASS_NAME}


def _condition(request: Manifest, kind: str) -> Manifest:
    return condition(request.get("status", {}), kind)
