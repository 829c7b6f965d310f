"""Writes builtin.json, the schemas of Kubernetes' own kinds: python -m world.api.write_schemas KUBECONFIG.

They are cut from the OpenAPI documents of a real API server. Descriptions are left out.
"""

import argparse
from pathlib import Path
from typing import Any

import msgspec

from cluster.api import Api
from world.api.kinds import BUILTIN
from world.api.schemas import FILE

_KEPT = ("type", "format", "default", "required", "x-kubernetes-int-or-string")
_LISTS = {
    "x-kubernetes-list-map-keys": "keys",
    "x-kubernetes-list-type": "list",
    "x-kubernetes-map-type": "map",
    "x-kubernetes-patch-merge-key": "mergeKey",
    "x-kubernetes-patch-strategy": "strategy",
}


def cut(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema with only those keywords that the server reads."""
    kept = {name: schema[name] for name in _KEPT if name in schema}
    kept |= {short: schema[name] for name, short in _LISTS.items() if name in schema}
    if (parts := schema.get("allOf")) is not None:
        kept |= cut(parts[0])
    if (reference := schema.get("$ref")) is not None:
        kept["ref"] = reference.rpartition("/")[2]
    if "properties" in schema:
        kept["properties"] = {name: cut(each) for name, each in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            kept[name] = cut(schema[name])
    if "oneOf" in schema or "anyOf" in schema:
        kept["either"] = True
    return kept


def collect(api: Api) -> dict[str, Any]:
    """Return the schemas of all kinds, and those to which they refer, by name."""
    components: dict[str, Any] = {}
    kinds: dict[str, str] = {}
    wanted = {(each.group, each.version, each.kind) for each in BUILTIN}
    for group, version in sorted({(group, version) for group, version, _ in wanted}):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        found = api.get(f"/openapi/v3/{path}")["components"]["schemas"]
        components |= found
        for name, schema in found.items():
            for each in schema.get("x-kubernetes-group-version-kind", ()):
                if (each["group"], each["version"], each["kind"]) in wanted:
                    kinds[f"{each['group']}/{each['version']}/{each['kind']}"] = name
    missing = wanted - {tuple(each.split("/")) for each in kinds}
    if missing:
        raise LookupError(f"the server has no schema of {sorted(missing)}")
    definitions: dict[str, Any] = {}
    waiting = list(kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in definitions:
            definitions[name] = cut(components[name])
            waiting += references(definitions[name])
    return {"kinds": kinds, "definitions": definitions}


def references(schema: dict[str, Any]) -> list[str]:
    """Return the names to which a schema refers."""
    own = [schema["ref"]] if "ref" in schema else []
    below = [*schema.get("properties", {}).values()]
    below += [schema[name] for name in ("items", "additionalProperties") if name in schema]
    return own + [name for each in below for name in references(each)]


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    content = collect(Api(parser.parse_args().kubeconfig))
    encoded = msgspec.json.encode(content, order="sorted")
    FILE.write_bytes(msgspec.json.format(encoded, indent=1) + b"\n")


if __name__ == "__main__":
    main()
