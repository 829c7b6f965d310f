"""Every manifest is what the schemas of Kubernetes ask for, with no field that they do not know."""

import json
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from devcluster.identity import BASE, MANIFESTS
from devcluster.identity import OVERLAYS as FOLDER
from installation.rendering import EVERYTHING, FOREIGN, OWN, Charted, Kustomized, Manifest, key

VERSION = "1.36"
FILES = [path for folder in ("samples", "gitops") for path in sorted((MANIFESTS / folder).rglob("*.yaml"))]


def wrong(objects: list[Manifest]) -> Iterator[str]:
    """Say what is wrong with manifests, but for kinds of which there is no schema.

    Our own are checked by their CRDs' rules, in tests/cluster/test_manifests.py.
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


def test_what_kustomize_makes(kustomized: Kustomized) -> None:
    """Each object once, as most are the same in all overlays."""
    objects = [each for folder in (BASE, *FOLDER.iterdir()) for each in kustomized.objects(folder)]
    distinct = {json.dumps(each, sort_keys=True): each for each in objects}
    assert list(wrong(list(distinct.values()))) == []


def test_what_helm_makes(charted: Charted) -> None:
    assert list(wrong(charted.objects(EVERYTHING))) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_to_be_applied_as_it_is(path: Path) -> None:
    assert list(wrong(list(yaml.safe_load_all(path.read_text())))) == []
