"""The chart installs the same as kustomize: the base by its defaults, and each part by a few values."""

import re
from collections.abc import Sequence
from copy import deepcopy

import pytest
import yaml

from devcluster.identity import BASE, COMPONENTS
from installation.rendering import (
    EVERYTHING,
    GONE,
    PARTS,
    Charted,
    Kustomized,
    Manifest,
    by_key,
    changed,
    key,
)
from write_chart import OF_THE_CLUSTER

# The user of a chart chooses the namespace, so the chart does not restrict other objects in it.
NAMESPACE = {key(each) for each in yaml.safe_load_all((BASE / "namespace.yaml").read_text())}
# The labels and annotations by which Helm's charts describe themselves.
LABELS = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "helm.sh/chart",
}
ANNOTATIONS = {"helm.sh/resource-policy", "checksum/configuration"}
GENERATED = re.compile(r"^tidelock-scheduler-[a-z0-9]{10}$")  # kustomize adds a hash of the content


def without(mapping: Manifest, name: str, keys: set[str]) -> None:
    """Remove keys from a nested mapping, and remove the nested mapping if it is empty then."""
    for each in keys & mapping.get(name, {}).keys():
        del mapping[name][each]
    if mapping.get(name) == {}:
        del mapping[name]


def plain(objects: Sequence[Manifest]) -> list[Manifest]:
    """Convert both kinds of output to one form, without Helm's additions and with sorted lists."""
    found = deepcopy([each for each in objects if key(each) not in NAMESPACE])
    for each in found:
        without(each["metadata"], "labels", LABELS)
        without(each["metadata"], "annotations", ANNOTATIONS)
        if each["kind"] in OF_THE_CLUSTER:  # kustomize does not know all cluster-scoped kinds
            each["metadata"].pop("namespace", None)
        each["metadata"]["name"] = GENERATED.sub("tidelock-scheduler", each["metadata"]["name"])
        if each["kind"] == "ConfigMap":
            each["data"] = {name: yaml.safe_load(text) for name, text in each["data"].items()}
        if each["kind"] == "Deployment":
            without(each["spec"]["template"]["metadata"], "annotations", ANNOTATIONS)
            pod = each["spec"]["template"]["spec"]
            for volume in pod.get("volumes", ()):
                if "configMap" in volume:
                    volume["configMap"]["name"] = GENERATED.sub(
                        "tidelock-scheduler", volume["configMap"]["name"]
                    )
            for named in (pod, *pod["containers"]):
                for name in {"volumes", "volumeMounts", "ports"} & named.keys():
                    named[name].sort(key=lambda item: item["name"])
    return found


def test_every_component_has_equivalent_values() -> None:
    assert {f"components/{each.name}" for each in COMPONENTS.iterdir()} == PARTS.keys() - {"monitoring"}


def test_the_defaults_of_the_chart_equal_the_base(charted: Charted, kustomized: Kustomized) -> None:
    assert changed(plain(kustomized.objects()), plain(charted.objects({}))) == {}


@pytest.mark.parametrize("part", PARTS)
def test_the_values_for_a_part_equal_the_part(charted: Charted, kustomized: Kustomized, part: str) -> None:
    assert changed(plain(kustomized.objects(part)), plain(charted.objects(PARTS[part]))) == {}


def test_all_values_together_equal_all_components_together(charted: Charted, kustomized: Kustomized) -> None:
    assert changed(plain(kustomized.objects(*PARTS)), plain(charted.objects(EVERYTHING))) == {}


def test_each_part_changes_the_base(kustomized: Kustomized) -> None:
    """Otherwise the comparisons above would prove little."""
    base = plain(kustomized.objects())
    assert PARTS
    for part in PARTS:
        objects = plain(kustomized.objects(part))
        found = changed(base, objects)
        assert found
        assert GONE not in found.values()


def test_a_kustomization_can_replace_the_image(kustomized: Kustomized) -> None:
    """Check the name that `kustomize edit set image tidelock=...` replaces."""
    deployment = by_key(kustomized.objects())["Deployment/tidelock"]
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"].partition(":")[0] == "tidelock"
