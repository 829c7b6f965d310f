"""The nodes on which the demo plays its story, and its namespace."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import Json
from demo import stage
from devcluster import Cluster, DevClusterError

NOT_READY = "node.kubernetes.io/not-ready:NoSchedule"


class Scripted(Cluster):
    """A cluster whose kubectl has prepared answers. The last of them stays."""

    def __init__(self, *answers: str) -> None:
        super().__init__(Path("kubeconfig"), ["kubectl"])
        self._answers = list(answers)
        self.asked: list[tuple[str, ...]] = []

    def kubectl(self, *args: str, input: str | None = None) -> str:  # noqa: A002 -- as in Cluster
        assert input is None
        self.asked.append(args)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def node(name: str, ready: str = "True", taints: Sequence[str] = (), **spec: Any) -> Json:
    plain = [dict(zip(("key", "effect"), taint.split(":"), strict=True)) for taint in taints]
    conditions = [{"type": "Ready", "status": ready}] if ready else []
    return {
        "metadata": {"name": name},
        "spec": ({"taints": plain} if plain else {}) | spec,
        "status": {"conditions": conditions} if conditions else {},
    }


def listed(*nodes: Json) -> str:
    return json.dumps({"items": nodes})


OTHERS = (
    node("a-control-plane", taints=["node-role.kubernetes.io/control-plane:NoSchedule"]),
    node("a-drained-one", unschedulable=True),
    node("a-lost-one", "Unknown"),
    node("a-dedicated-one", taints=["team:NoExecute"]),
)


@pytest.mark.parametrize(
    "late", [node("w2", ""), node("w2", "False"), node("w2", taints=[NOT_READY])], ids=["new", "not", "taint"]
)
def test_the_story_waits_until_three_workers_are_ready(late: Json) -> None:
    """Regression: the demo used workers that were not Ready, and nodes that take no pods."""
    workers = node("w3", taints=["soft:PreferNoSchedule"]), node("w1")
    cluster = Scripted(listed(*OTHERS, *workers, late), listed(*OTHERS, *workers, node("w2"), node("w4")))
    assert stage.ready_workers(cluster) == ["w1", "w2", "w3"]
    assert len(cluster.asked) == 2


def test_a_cluster_with_too_few_workers_is_an_error_that_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "_PATIENCE_SECONDS", 0)
    with pytest.raises(DevClusterError, match=r"needs three workers: .* without taints; last seen: \['w1'\]"):
        stage.ready_workers(Scripted(listed(*OTHERS, node("w1"))))


def test_the_pods_of_an_installed_cluster_run_the_image_of_the_operator() -> None:
    """Regression: they pulled an image from a registry, which nodes without a way to it do for minutes."""
    nodes = listed(node("w1"), node("w2"), node("w3"))
    with stage.installed(Scripted("", "tidelock:0.1.0", nodes)) as found:
        assert (found.workers, found.image) == (["w1", "w2", "w3"], "tidelock:0.1.0")


def test_a_namespace_that_an_earlier_run_is_deleting_is_gone_first() -> None:
    cluster = Scripted("Terminating", "")
    with stage.namespace(cluster, "demo"):
        assert [args[0] for args in cluster.asked] == ["get", "wait", "create"]
    assert cluster.asked[-1] == ("delete", "namespace", "demo", "--wait=false")
