"""Extenders are sent the victims of the node, and the rest of their PodGroup goes with them."""

from dataclasses import replace

from builders import encode, pod_json
from tidelock.framework.config_file import Extender
from tidelock.model.pods import decode_pod
from tidelock.model.raw import keeping_raw
from unit.kube.scripted import ScriptedServer, answers
from unit.scheduler.core.test_decider_extenders import FOO, WANTED, node, running, until
from unit.scheduler.machinery import Shell, pod_path
from unit.scheduler.pod_groups import GROUPS, deliver, pod_group


async def test_a_group_goes_as_a_whole_although_the_extender_has_seen_one_node(
    server: ScriptedServer,
) -> None:
    server.replays(answers({"NodeNameToMetaVictims": {"node-a": {"Pods": [{"UID": "uid-here"}]}}}))
    extender = Extender.model_validate(
        {
            "urlPrefix": server.url,
            "preemptVerb": "preempt",
            "nodeCacheCapable": True,
            "managedResources": [{"name": FOO}],
        }
    )
    nodes = node("node-a", cpu="1"), node("node-b", cpu="1")
    shell = Shell(*nodes, configuration=replace(GROUPS, extenders=(extender,)))
    deliver(shell, pod_group(min_count=None, disruption="all"))
    group = {"podGroupName": "train"}
    shell.store_pod("here", requests={"cpu": "1"}, node_name="node-a", schedulingGroup=group)
    shell.store_pod("there", requests={"cpu": "100m"}, node_name="node-b", schedulingGroup=group)
    shell.store_pod("safe", requests={"cpu": "900m"}, node_name="node-b", priority=20)
    plain = pod_json("web-0", requests=WANTED, priority=10)
    shell.api.objects[pod_path("web-0")] = plain

    async with running(shell):
        shell.event_handlers.pods.upsert(None, keeping_raw(decode_pod)(encode(plain)))
        await until(lambda: shell.api.objects[pod_path("web-0")]["status"].get("conditions"))
        await shell.settle()

    (asked,) = server.asked
    assert asked.json["NodeNameToMetaVictims"] == {
        "node-a": {"Pods": [{"UID": "uid-here"}], "NumPDBViolations": 0}
    }
    assert [name for name in ("here", "there", "safe") if pod_path(name) in shell.api.objects] == ["safe"]
