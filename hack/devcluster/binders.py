"""What components/extender offers to those who bind pods beside Tidelock, for an operator on this machine."""

from pathlib import Path
from typing import Any

import yaml

from devcluster.cluster import Cluster
from devcluster.identity import EXTENDER, MANIFESTS, SYSTEM_NAMESPACE, rendered
from devcluster.keys import Keys
from devcluster.local import LocalCluster
from devcluster.loopback import HOST

_KUBE_SCHEDULER = MANIFESTS / "components" / "extender" / "kube-scheduler.yaml"
NAMES = (HOST, f"tidelock-binders.{SYSTEM_NAMESPACE}.svc")
"""For whom the operator's certificate is to be made: as the API server reaches it, and kube-scheduler."""


def webhook_configuration(cluster: Cluster, port: int) -> dict[str, Any]:
    """Read the webhooks, to be asked at a port of this machine and not at a Service."""
    kind = "ValidatingWebhookConfiguration"
    (configuration,) = [each for each in rendered(cluster, EXTENDER) if each["kind"] == kind]
    for webhook in configuration["webhooks"]:
        del webhook["clientConfig"]["service"]
        webhook["clientConfig"]["url"] = f"https://{HOST}:{port}"
    return dict(configuration)


def scheduler_keys(cluster: LocalCluster) -> Keys:
    """Return the keys by which kube-scheduler proves itself to the extender: those of the cluster's admin."""
    return Keys.under(cluster.directory / "keys")


def scheduler_configuration(port: int, authority: Path, keys: Keys, **extender: Any) -> dict[str, Any]:
    """Read the configuration for kube-scheduler, with the extender at a port of this machine."""
    settings: dict[str, Any] = yaml.safe_load(_KUBE_SCHEDULER.read_text())
    (offered,) = settings["extenders"]
    offered |= {"urlPrefix": f"https://{HOST}:{port}/extender", "httpTimeout": "30s", **extender}
    offered["tlsConfig"] |= {
        "caFile": str(authority),
        "certFile": str(keys.admin_certificate),
        "keyFile": str(keys.admin_key),
    }
    return settings
