"""Comparisons with the answers of all plugins, as `kubectl tidelock why` has them."""

from random import Random

import msgspec
import pytest

from builders import NOW, node, pod
from tidelock.framework.config import default_configuration
from tidelock.plugins.registry import BUILTINS
from tidelock.scheduler.core.explain import explain_pod
from tidelock.shadow.world import Outcome, ShadowWorld
from unit.shadow.trace import TraceClock


def world(seed: int) -> ShadowWorld:
    """Return a world of nodes with random pods, taints and labels."""
    rng = Random(seed)  # noqa: S311 -- to be repeated  # noqa: S311 -- a repeatable scene
    made = ShadowWorld(default_configuration("tidelock-scheduler", BUILTINS), TraceClock())
    for number in range(8):
        taints = ("team=red:NoSchedule",) if rng.random() < 0.2 else ()
        labels = {"zone": rng.choice("xy"), "kubernetes.io/hostname": f"n{number}"}
        made.handlers.nodes.upsert(None, node(f"n{number}", cpu="8", taints=taints, labels=labels))
        for other in range(rng.randint(0, 4)):
            requests = {"cpu": str(rng.randint(1, 3)), "memory": f"{rng.randint(1, 4)}Gi"}
            placed = pod(f"p{number}-{other}", requests=requests, node_name=f"n{number}")
            made.handlers.pods.upsert(None, placed)
    return made


@pytest.mark.parametrize("seed", range(8))
def test_a_comparison_agrees_with_the_explanation_for_every_node(seed: int) -> None:
    made = world(seed)
    new = pod("new", requests={"cpu": "3", "memory": "2Gi"}, nodeSelector={"zone": "x"})
    reports = explain_pod(made.pipeline, made.profile_of(new), new, NOW)
    best = reports[0]

    for report in reports:
        found = made.compare(new, report.node.name, NOW)
        if best.rejections:
            assert found.outcome is Outcome.NO_NODE
        elif report is best:
            assert found.outcome is Outcome.SAME
        elif report.rejections:
            assert found.outcome is Outcome.RULED_OUT
            assert set(found.rejecters) == {each.plugin for each in report.rejections}
        else:
            gap = best.total - report.total
            assert found.outcome is (Outcome.LOWER if gap > 1e-6 else Outcome.EQUAL)
            assert found.gap == pytest.approx(gap)
            assert found.node == best.node.name
            for plugin, points in found.points.items():
                assert points == pytest.approx(best.points[plugin] - report.points[plugin])


def test_a_bound_pod_is_compared_as_if_it_were_not_bound() -> None:
    made = world(0)
    unbound = pod("new", requests={"cpu": "1"})
    bound = msgspec.structs.replace(unbound, spec=msgspec.structs.replace(unbound.spec, node_name="n7"))
    for name in ("n0", "n3", "n7"):
        assert made.compare(bound, name, NOW) == made.compare(unbound, name, NOW)


def test_a_node_that_is_not_known_is_not_judged() -> None:
    assert world(0).compare(pod("new"), "gone", NOW).outcome is Outcome.UNJUDGED


def test_without_any_node_that_fits_the_rejecters_of_the_schedulers_node_are_named() -> None:
    found = world(0).compare(pod("huge", requests={"cpu": "99"}), "n1", NOW)
    assert (found.outcome, found.node) == (Outcome.NO_NODE, "")
    assert "NodeResourcesFit" in found.rejecters


def test_the_profile_of_the_schedulers_name_decides_and_otherwise_the_first_one() -> None:
    made = world(0)
    assert made.profile_of(pod("new", scheduler="default-scheduler")).scheduler_name == "tidelock-scheduler"
