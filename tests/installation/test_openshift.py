"""OpenShift admits the operator's pod by its constraint restricted-v2, without an option of the chart."""

from typing import Any

import pytest

from devcluster.identity import EXTENDER
from installation.rendering import EVERYTHING, Charted, Kustomized, Manifest, by_key
from installation.scc import UIDS, refusals

TOKEN = {"metrics": {"tokenSecret": {"name": "scrapes", "key": "bearer"}}}


def pod(objects: list[Manifest]) -> Manifest:
    spec: Manifest = by_key(objects)["Deployment/tidelock"]["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("values", [{}, EVERYTHING | TOKEN], ids=["defaults", "everything"])
def test_the_pod_of_the_chart_is_admitted(charted: Charted, values: Manifest) -> None:
    assert list(refusals(pod(charted.objects(values)))) == []


def test_the_pod_of_the_manifests_is_admitted(kustomized: Kustomized) -> None:
    for parts in ((), (EXTENDER,)):
        assert list(refusals(pod(kustomized.objects(*parts)))) == []


def test_a_user_of_the_namespace_is_admitted(charted: Charted) -> None:
    context = {"runAsUser": UIDS.start + 5, "fsGroup": UIDS.start}
    assert list(refusals(pod(charted.objects({"podSecurityContext": context})))) == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"podSecurityContext": {"runAsUser": 65532}}, "pod: runAsUser 65532"),
        ({"podSecurityContext": {"fsGroup": 65532}}, "pod: fsGroup 65532"),
        (
            {"podSecurityContext": {"seccompProfile": {"type": "Unconfined"}}},
            "pod: seccompProfile Unconfined",
        ),
        ({"podSecurityContext": {"seLinuxOptions": {"level": "s0"}}}, "pod: seLinuxOptions"),
        ({"securityContext": {"allowPrivilegeEscalation": True}}, "tidelock: allowPrivilegeEscalation"),
        ({"securityContext": {"privileged": True}}, "tidelock: privileged"),
        ({"securityContext": {"capabilities": {"add": ["NET_ADMIN"]}}}, "tidelock: capabilities"),
        ({"extraVolumes": [{"name": "logs", "hostPath": {"path": "/var/log"}}]}, "volume logs: hostPath"),
        ({"hostNetwork": True}, "hostNetwork"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_wider_pod_is_refused(charted: Charted, values: dict[str, Any], reason: str) -> None:
    (found,) = refusals(pod(charted.objects(values)))
    assert found.startswith(reason)
