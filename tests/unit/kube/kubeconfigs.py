"""Kubeconfig files for tests."""

from pathlib import Path
from typing import Any

import yaml


def write_kubeconfig(
    path: Path,
    server: str,
    user: dict[str, Any],
    *,
    cluster: dict[str, Any] | None = None,
    namespace: str = "",
) -> Path:
    """Write a kubeconfig with one context and return its path."""
    context = {"cluster": "c", "user": "u"} | ({"namespace": namespace} if namespace else {})
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": context}],
    }
    path.write_text(yaml.safe_dump(content))
    return path
