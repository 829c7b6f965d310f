from builders import node, pod
from tidelock.framework.api import Code
from tidelock.plugins.dynamic_resources import DynamicResources
from unit.plugins.scene import Scene

SCENE = Scene(node())


def test_a_pod_with_resource_claims_is_refused_with_the_field() -> None:
    status = SCENE.judge(DynamicResources, pod(resourceClaims=[{"name": "gpu"}])).status

    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons[0].startswith("spec.resourceClaims: ")


def test_other_pods_are_skipped() -> None:
    assert SCENE.judge(DynamicResources, pod()).status.code is Code.SKIP
