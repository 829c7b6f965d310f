"""The chart installs, upgrades and removes the same as kustomize, and leaves no webhook behind."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from devcluster.identity import SYSTEM_NAMESPACE
from e2e.judging import Judgement
from e2e.site import EXTENDER, HA, Image, Json, Site
from e2e.stream import STOCK, pod, streaming
from installation.rendering import CHART, Charted

pytestmark = pytest.mark.timeout(1500)

_RELEASE = "tidelock"
_NAMESPACE = "e2e-helm"
_IN_SYSTEM = f"--namespace={SYSTEM_NAMESPACE}"


class Helm:
    """Helm, with the cluster."""

    def __init__(self, charted: Charted, site: Site) -> None:
        self._charted = charted
        self._site = site

    def run(self, *arguments: str, image: Image | None = None) -> None:
        """Run a command on the release, with an image and all that the kustomization of the docs has."""
        values: Json = {"replicas": 2, "extender": {"enabled": True}}
        if image is not None:
            repository, tag = image.name.split(":")
            values["image"] = {"repository": repository, "tag": tag}
            values["podAnnotations"] = {"tidelock.dev/image-id": image.id}
            arguments = (*arguments, "--values=-")
        place = (f"--kubeconfig={self._site.cluster.kubeconfig}", _IN_SYSTEM)
        self._charted.run(*arguments, *place, text=yaml.safe_dump(values))


@pytest.fixture
def helm_release(site: Site, charted: Charted) -> Iterator[Helm]:
    """Yield Helm in a cluster without Tidelock, and remove the release if the test has not."""
    site.remove(HA, EXTENDER)
    helm = Helm(charted, site)
    yield helm
    helm.run("uninstall", _RELEASE, "--ignore-not-found")
    site.kubectl("delete", "namespace", SYSTEM_NAMESPACE, "--ignore-not-found", "--timeout=110s")


def leftovers(site: Site) -> list[str]:
    """Return the webhook configurations and admission policies of Tidelock that are still there."""
    kinds = "validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies"
    names = site.kubectl("get", kinds, "--output=name").split()
    return [name for name in names if "tidelock" in name]


def check_pods_can_be_created(site: Site) -> None:
    """Create a pod of the cluster's own scheduler, and wait until it is bound."""
    with site.namespace("e2e-after"):
        place = "--namespace=e2e-after"
        text = yaml.safe_dump({"apiVersion": "v1", "kind": "Pod"} | pod("after", "10m", STOCK))
        site.kubectl("create", place, "--filename=-", text=text)
        site.kubectl("wait", place, "pod/after", "--for=condition=PodScheduled", "--timeout=100s")


def test_a_release_is_installed_upgraded_and_removed(
    site: Site, helm_release: Helm, previous_checkout: Path, previous: Image, image: Image
) -> None:
    old = str(previous_checkout / "manifests" / "chart")
    helm_release.run("install", _RELEASE, old, "--create-namespace", image=previous)
    site.rolled_out()
    assert site.until("a leader", site.leader)
    with site.namespace(_NAMESPACE):
        judged = asyncio.run(_upgraded(site, helm_release, image))
    print("\nhelm upgrade from the earlier revision")  # noqa: T201 -- the output is the evidence
    print("\n".join(f"  {line}" for line in judged.lines()))  # noqa: T201
    assert judged.violations == []
    helm_release.run("uninstall", _RELEASE, "--wait")
    assert leftovers(site) == []
    check_pods_can_be_created(site)


async def _upgraded(site: Site, helm: Helm, image: Image) -> Judgement:
    """Upgrade the release under a stream, and judge the record."""

    def upgrade() -> None:
        helm.run("upgrade", _RELEASE, str(CHART), "--reset-then-reuse-values", image=image)
        site.rolled_out()

    async with (
        site.recorded() as (client, record),
        streaming(client, record, _NAMESPACE, site.workers()) as stream,
    ):
        await asyncio.sleep(5)
        await asyncio.to_thread(upgrade)
        await asyncio.sleep(5)
    return stream.judged()


def test_kustomize_leaves_no_webhook_either(site: Site, image: Image) -> None:
    site.install(image, HA, EXTENDER)
    assert leftovers(site)
    site.remove(HA, EXTENDER)
    assert leftovers(site) == []
    check_pods_can_be_created(site)
