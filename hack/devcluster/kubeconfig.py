import base64
from pathlib import Path
from typing import Any

import yaml

from devcluster.errors import DevClusterError
from devcluster.keys import Keys

_NAME = "tidelock-dev"


def write_kubeconfig(path: Path, server: str, keys: Keys) -> None:
    """Write a kubeconfig for the admin that needs no other file, and that only its owner can read."""
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": _NAME,
                "cluster": {"server": server, "certificate-authority-data": _base64(keys.authority)},
            }
        ],
        "users": [
            {
                "name": _NAME,
                "user": {
                    "client-certificate-data": _base64(keys.admin_certificate),
                    "client-key-data": _base64(keys.admin_key),
                },
            }
        ],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content, sort_keys=False))


def server_url(kubeconfig: Path) -> str:
    """Return the API server's address in the kubeconfig's current context.

    Raises:
        DevClusterError: the file is no kubeconfig, or its current context is missing.

    """
    try:
        content = yaml.safe_load(kubeconfig.read_text())
        context = _named(content["contexts"], content["current-context"])["context"]
        return str(_named(content["clusters"], context["cluster"])["cluster"]["server"])
    except (OSError, yaml.YAMLError, LookupError, TypeError) as error:
        raise DevClusterError(f"{kubeconfig} is not a usable kubeconfig: {error!r}") from error


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return {entry["name"]: entry for entry in entries}[name]


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
