"""Writes the JSON Schemas of all kinds to a folder: python -m write_schemas FOLDER.

Editors and tools without a cluster, such as kubeconform, read them. They are as strict as the API server with
`fieldValidation=Strict`: an unknown field is an error. JSON Schema can't express the CRDs' rules in CEL, so
only the API server checks those.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from tidelock.model.api.crds import CUSTOM_RESOURCES, GROUP, VERSION, CustomResource

_DIALECT = "http://json-schema.org/draft-07/schema#"  # the newest one that the YAML language server reads
_EXTENSION = "x-kubernetes-"
_ANY_FIELDS = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING = "x-kubernetes-int-or-string"


def json_schema(resource: CustomResource) -> dict[str, Any]:
    """Return the JSON Schema of whole objects of a kind."""
    definition = resource.definition()
    schema = _strict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    schema["properties"] = {
        "apiVersion": {"const": f"{GROUP}/{VERSION}"},
        "kind": {"const": resource.kind},
        "metadata": {"type": "object"},
        **schema["properties"],
    }
    schema["required"] = ["apiVersion", "kind", "metadata", *schema["required"]]
    return {"$schema": _DIALECT, "title": resource.kind, **schema}


def _strict(structural: dict[str, Any]) -> dict[str, Any]:
    """Translate a structural schema and those below it. Fields without a property are forbidden."""
    schema = {key: value for key, value in structural.items() if not key.startswith(_EXTENSION)}
    if structural.get(_INT_OR_STRING):
        schema["type"] = ["integer", "string"]
    for key in ("items", "additionalProperties"):
        if key in schema:
            schema[key] = _strict(schema[key])
    if "properties" in schema:
        schema["properties"] = {name: _strict(each) for name, each in schema["properties"].items()}
        if not structural.get(_ANY_FIELDS):
            schema.setdefault("additionalProperties", False)
    return schema


def main() -> None:
    """Write one file for each kind, at the path where kubeconform looks for it by default names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder / GROUP
    folder.mkdir(parents=True, exist_ok=True)
    for resource in CUSTOM_RESOURCES:
        text = json.dumps(json_schema(resource), indent=2, ensure_ascii=False)
        (folder / f"{resource.kind.lower()}_{VERSION}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
