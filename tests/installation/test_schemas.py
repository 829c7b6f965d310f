"""Every manifest is valid by the schemas of Kubernetes, without unknown fields."""

import json
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from devcluster.identity import MANIFESTS
from installation.rendering import (
    EVERYTHING,
    FOREIGN,
    OWN,
    PARTS,
    PLATFORM,
    Charted,
    Kustomized,
    Manifest,
    key,
)

VERSION = "1.36"
FILES = [path for folder in ("samples", "gitops") for path in sorted((MANIFESTS / folder).rglob("*.yaml"))]


def wrong(objects: list[Manifest]) -> Iterator[str]:
    """Yield the errors of manifests, except those of kinds without a schema.

    Manifests of Tidelock's kinds are checked by the rules of the CRDs, in tests/cluster/test_manifests.py.
    """
    for each in objects:
        if each["kind"] in OWN or each["kind"] in FOREIGN:
            continue
        try:
            kubernetes_validate.validate(each, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"{key(each)}: {error}"


def test_the_schemas_are_of_this_version_and_strict() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"port": 1}}
    (told,) = wrong([service])
    assert "port" in told
    assert kubernetes_validate.validate(service | {"spec": {}}, VERSION, strict=True) == VERSION


def test_objects_of_kustomize_are_valid(kustomized: Kustomized) -> None:
    """Check each object once, because most are the same with each part."""
    objects = kustomized.objects() + [each for part in PARTS for each in kustomized.objects(part)]
    distinct = {json.dumps(each, sort_keys=True): each for each in objects}
    assert list(wrong(list(distinct.values()))) == []


@pytest.mark.parametrize("values", [EVERYTHING, PLATFORM], ids=["everything", "platform"])
def test_objects_of_helm_are_valid(charted: Charted, values: Manifest) -> None:
    assert list(wrong(charted.objects(values))) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_samples_or_gitops_is_valid(path: Path) -> None:
    assert list(wrong(list(yaml.safe_load_all(path.read_text())))) == []
