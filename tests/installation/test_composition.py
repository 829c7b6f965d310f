"""Components combine in any order: each combination is the sum of its parts, and its objects agree."""

import shutil
from collections.abc import Sequence
from copy import deepcopy
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from devcluster.identity import MANIFESTS
from documents import ROOT, page_block
from installation.agreement import DEPLOYMENT, arguments, container, disagreements, leaves, settings_of
from installation.rendering import PARTS, Charted, Kustomized, Manifest, by_key
from installation.test_equality import plain
from sampling import sample

COMPONENTS = sorted(part for part in PARTS if part.startswith("components/"))
COMBINATIONS = [each for size in range(len(COMPONENTS) + 1) for each in combinations(COMPONENTS, size)]
# Orders of each combination. One is mixed by the names of its components.
ORDERS = sample(1, 4)
# A rendering by Helm for every so many combinations.
STEP = sample(6, 1)
WEB_VIEW, TOKEN = ROOT / "docs" / "web-view.md", ROOT / "docs" / "security.md"


class Renderer:
    """Renderings without CRDs, which take three quarters of the time and no part in a combination."""

    def __init__(self, kustomized: Kustomized, manifests: Path) -> None:
        self._kustomized, self._manifests = kustomized, manifests
        self.alone = cache(self.render)

    def render(self, *parts: str) -> list[Manifest]:
        return plain(self._kustomized.objects(*parts, manifests=self._manifests))


@pytest.fixture(scope="module")
def renderer(kustomized: Kustomized, tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    copied = tmp_path_factory.mktemp("copied") / "manifests"
    shutil.copytree(MANIFESTS, copied)
    file = copied / "base" / "kustomization.yaml"
    content = yaml.safe_load(file.read_text())
    content["resources"].remove("../../crds")
    file.write_text(yaml.safe_dump(content))
    return Renderer(kustomized, copied)


def names(parts: Sequence[str]) -> str:
    return "+".join(each.removeprefix("components/") for each in parts) or "base"


def sum_of(renderer: Renderer, parts: Sequence[str]) -> dict[str, Manifest]:
    """Add the changes that each part makes to the base. No two may change one field in two ways."""
    base = {key: leaves(each) for key, each in by_key(renderer.alone()).items()}
    found = {key: dict(fields) for key, fields in base.items()}
    changed: dict[tuple[str, str], object] = {}
    for part in parts:
        for key, each in by_key(renderer.alone(part)).items():
            for path, value in leaves(each).items():
                if base.get(key, {}).get(path, each) == value:
                    continue
                assert changed.setdefault((key, path), value) == value, (part, key, path)
                found.setdefault(key, {})[path] = value
    return found


@pytest.mark.parametrize("parts", COMBINATIONS, ids=names)
def test_each_combination_in_any_order_is_the_sum_of_its_parts_and_agrees(
    renderer: Renderer, parts: tuple[str, ...]
) -> None:
    expected = sum_of(renderer, parts)
    mixed = Random(names(parts))  # noqa: S311 -- the same orders each time
    for _ in range(ORDERS):
        order = mixed.sample(parts, len(parts))
        objects = renderer.render(*order)
        assert {key: leaves(each) for key, each in by_key(objects).items()} == expected, order
        assert disagreements(objects) == [], order


@pytest.mark.parametrize("parts", COMBINATIONS[::STEP], ids=names)
def test_the_values_for_a_combination_equal_it_and_agree(
    charted: Charted, renderer: Renderer, parts: tuple[str, ...]
) -> None:
    values: Manifest = {"crds": {"enabled": False}}
    for part in parts:
        values |= PARTS[part]
    objects = plain(charted.objects(values))
    assert {key: leaves(each) for key, each in by_key(objects).items()} == sum_of(renderer, parts)
    assert disagreements(objects) == []


@pytest.mark.parametrize("part", COMPONENTS)
def test_each_component_sets_the_options_of_its_feature(renderer: Renderer, part: str) -> None:
    """Otherwise nothing above would show that an option is lost."""
    base, settings = (
        settings_of(by_key(objects)[DEPLOYMENT]) for objects in (renderer.alone(), renderer.alone(part))
    )
    needs_none = {"components/ha", "components/pod-groups"}
    assert (settings == base) == (part in needs_none)


def test_each_disagreement_is_found(renderer: Renderer) -> None:
    """Break an installation of all components in each way in which a combination could."""
    whole = renderer.alone(*COMPONENTS)

    def broken(key: str, path: Sequence[str | int], value: object) -> list[str]:
        objects = deepcopy(whole)
        found: Any = by_key(objects)[key]
        for step in path[:-1]:
            found = found[step]
        found[path[-1]] = value
        return disagreements(objects)

    def without(key: str) -> list[str]:
        return disagreements([each for each in whole if each is not by_key(whole)[key]])

    spec: tuple[str | int, ...] = ("spec", "template", "spec")
    only = (*spec, "containers", 0)
    args = container(by_key(whole)[DEPLOYMENT])["args"]
    assert disagreements(whole) == []
    assert broken(DEPLOYMENT, (*only, "args"), [*args, "--admission"]) == ["--admission is given twice"]
    assert "Validating webhooks are not served" in broken(
        DEPLOYMENT, (*only, "args"), [each for each in args if each != "--admission"]
    )
    assert "no variable for $(KARMADA_CLUSTER)" in broken(DEPLOYMENT, (*only, "env"), [])
    assert "volumes and mounts differ" in broken(DEPLOYMENT, (*spec, "volumes"), [])
    assert "/etc/tidelock/config.yaml is not mounted" in broken(DEPLOYMENT, (*only, "volumeMounts"), [])
    assert without("ConfigMap/tidelock-scheduler") == ["there is no ConfigMap tidelock-scheduler"]
    assert broken(DEPLOYMENT, (*only, "ports", 0, "name"), "other")
    assert len(without("Service/tidelock-binders")) == 6  # the Service itself, and five webhooks
    assert without("NetworkPolicy/tidelock-estimator")
    assert without("MutatingWebhookConfiguration/tidelock") == ["Mutating webhooks are served"]
    assert len(without("ClusterRoleBinding/tidelock-webhooks")) == 2
    assert without("ClusterRole/tidelock-pod-groups") == ["tidelock-pod-groups is bound and does not exist"]
    assert broken(DEPLOYMENT, (*spec, "serviceAccountName"), "default")
    assert without("PodDisruptionBudget/tidelock") == ["2 replicas have no budget"]
    assert len(broken(DEPLOYMENT, ("spec", "replicas"), 1)) == 4


def test_the_patches_of_the_pages_add_to_all_components(
    renderer: Renderer, kustomized: Kustomized, tmp_path: Path
) -> None:
    """The patch of the ServiceMonitor took honorLabels away, which the labels of reservations need."""
    before = by_key(kustomized.objects(*COMPONENTS, "monitoring"))
    after = by_key(kustomized.objects(*COMPONENTS, "monitoring", patches=page_patches()))
    lost = {
        f"{key}{path}"
        for key, each in before.items()
        for path in leaves(each).keys() - leaves(after[key]).keys()
    }
    assert (before.keys(), lost) == (after.keys(), set())
    assert arguments(after[DEPLOYMENT])[-3:] == [
        "--web-view",
        "--metrics-token-file",
        "/var/run/metrics/token",
    ]


def page_patches() -> list[Manifest]:
    """Return the patches that pages describe, as entries of a kustomization."""
    target = {"kind": "Deployment", "name": "tidelock"}
    return [
        {"target": target, "patch": page_block(WEB_VIEW, "patch-web-view.yaml").text},
        {"patch": page_block(TOKEN, "patch-deployment.yaml").text},
        {"target": target, "patch": page_block(TOKEN, "patch-arguments.yaml").text},
        {"patch": page_block(TOKEN, "patch-service-monitor.yaml").text},
    ]
