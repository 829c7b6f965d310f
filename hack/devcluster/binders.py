"""Webhooks and extender of components/extender, which other binders use, for an operator on this machine."""

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
"""The names in the operator's certificate, by which the API server and kube-scheduler reach it."""


def webhook_configuration(
    cluster: Cluster, port: int, kind: str = "ValidatingWebhookConfiguration"
) -> dict[str, Any]:
    """Return a webhook configuration, with a port of this machine instead of a Service."""
    (configuration,) = [each for each in rendered(cluster, EXTENDER) if each["kind"] == kind]
    for webhook in configuration["webhooks"]:
        del webhook["clientConfig"]["service"]
        webhook["clientConfig"]["url"] = f"https://{HOST}:{port}"
    return dict(configuration)


def scheduler_keys(cluster: LocalCluster) -> Keys:
    """Return the keys of the cluster's admin, with which kube-scheduler authenticates to the extender."""
    return Keys.under(cluster.directory / "keys")


def scheduler_configuration(port: int, authority: Path, keys: Keys, **extender: Any) -> dict[str, Any]:
    """Return the configuration for kube-scheduler, with the extender at a port of this machine."""
    settings: dict[str, Any] = yaml.safe_load(_KUBE_SCHEDULER.read_text())
    (offered,) = settings["extenders"]
    offered |= {"urlPrefix": f"https://{HOST}:{port}/extender", "httpTimeout": "30s", **extender}
    offered["tlsConfig"] |= {
        "caFile": str(authority),
        "certFile": str(keys.admin_certificate),
        "keyFile": str(keys.admin_key),
    }
    return settings
