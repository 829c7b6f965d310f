"""Discovery: the groups and resources that clients ask for first."""

from collections.abc import Iterable
from typing import Any

from world.api.kinds import Kind

Json = dict[str, Any]

VERSION = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.2",
    "gitCommit": "0" * 40,
    "gitTreeState": "clean",
    "buildDate": "2026-01-01T00:00:00Z",
    "goVersion": "go1.26",
    "compiler": "gc",
    "platform": "linux/amd64",
}

_SHORT_NAMES = {
    "pods": "po",
    "nodes": "no",
    "namespaces": "ns",
    "configmaps": "cm",
    "services": "svc",
    "persistentvolumeclaims": "pvc",
    "persistentvolumes": "pv",
    "poddisruptionbudgets": "pdb",
    "replicasets": "rs",
    "deployments": "deploy",
    "statefulsets": "sts",
}
_VERBS = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_READ_VERBS = {"status": ["get", "patch", "update"], "binding": ["create"], "eviction": ["create"]}


def groups(kinds: Iterable[Kind]) -> Json:
    """Return the APIGroupList."""
    found: dict[str, list[str]] = {}
    for kind in kinds:
        if kind.group and kind.version not in found.setdefault(kind.group, []):
            found[kind.group].append(kind.version)
    listed = []
    for name, served in found.items():
        shown = [{"groupVersion": f"{name}/{version}", "version": version} for version in served]
        listed.append({"name": name, "versions": shown, "preferredVersion": shown[0]})
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def versions() -> Json:
    """Return the APIVersions of the core group."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def resources(kinds: Iterable[Kind], group: str, version: str) -> Json | None:
    """Return the APIResourceList of a group's version, or None if there is none."""
    rows: list[Json] = []
    for kind in kinds:
        if (kind.group, kind.version) != (group, version):
            continue
        row = {
            "name": kind.plural,
            "singularName": kind.kind.lower(),
            "namespaced": kind.namespaced,
            "kind": kind.kind,
            "verbs": _VERBS,
        }
        short = kind.short or _SHORT_NAMES.get(kind.plural)
        rows.append(row | ({"shortNames": [short]} if short else {}))
        rows += [
            row
            | {
                "name": f"{kind.plural}/{each}",
                "singularName": "",
                "verbs": _READ_VERBS.get(each, ["get", "update"]),
            }
            for each in sorted(kind.subresources)
        ]
    if not rows:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": rows,
    }
