"""A packed group goes to the domain where most of its members fit if each domain is tried alone."""

from collections import Counter
from unittest.mock import patch

from hypothesis import example, given
from hypothesis import strategies as st

from builders import Json, node, pod
from tidelock.model.api.reservation import Phase
from tidelock.scheduler.core import gang as gang_module
from unit.scheduler.gang import Gang
from unit.scheduler.machinery import Core

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
ZONES = "abc"

_ROLES = st.sampled_from(["leader", "worker"])


def _member(role: str, cpu: str = "1", **affinity: Json) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"role": role}}, "spec": {"containers": [container], "affinity": affinity}}


def _near(role: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"role": role}}, "topologyKey": HOSTNAME}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


@st.composite
def _members(draw: st.DrawFn) -> Json:
    """Draw the template of a member: requests, perhaps a host port, perhaps affinity and anti-affinity."""
    affinity: Json = {}
    for kind in ("podAffinity", "podAntiAffinity"):
        if draw(st.integers(0, 3)) == 0:
            affinity[kind] = _near(draw(_ROLES))
    member = _member(draw(_ROLES), draw(st.sampled_from("1123")), **affinity)
    if draw(st.integers(0, 3)) == 0:
        member["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return member


@st.composite
def _groups(draw: st.DrawFn) -> tuple[list[Json], int]:
    """Draw the templates of a group's members, often all equal, and the number of members that it needs."""
    kinds = draw(st.lists(_members(), min_size=1, max_size=draw(st.sampled_from([1, 1, 3]))))
    members = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=6))
    return members, draw(st.integers(1, len(members)))


_NODES = st.lists(st.tuples(st.sampled_from(ZONES), st.integers(0, 6)), max_size=8)


def _core(nodes: list[tuple[str, int]], resident: bool) -> Core:
    core = Core(
        *(
            node(f"{zone}{number}", cpu=str(cpu), labels={ZONE: zone, HOSTNAME: f"{zone}{number}"})
            for number, (zone, cpu) in enumerate(nodes)
        )
    )
    if resident and nodes:
        core.add(pod("there", node_name=f"{nodes[0][0]}0", labels={"role": "leader"}, requests={"cpu": "0"}))
    return core


def _place(core: Core, members: list[Json], least: int, zone: str = "") -> Gang:
    """Place a group in one zone, or pack it into any zone."""
    gang = Gang(core, len(members), least, topology=None if zone else {"mode": "Pack", "key": ZONE})
    for number, template in enumerate(members):
        spec = template["spec"] | ({"nodeSelector": {ZONE: zone}} if zone else {})
        gang.member(number, resources=None, template=template | {"spec": spec})
    gang.settle()
    return gang


def _active(gang: Gang) -> int:
    return gang.phases.count(Phase.ACTIVE)


@example(  # the worker fits nowhere before the leader is there
    nodes=[("a", 1), ("b", 3)],
    group=([_member("leader"), _member("worker", podAffinity=_near("leader"))], 2),
    resident=False,
    tries=64,
)
@given(nodes=_NODES, group=_groups(), resident=st.booleans(), tries=st.sampled_from([1, 4, 64]))
def test_a_group_is_packed_where_most_of_its_members_fit(
    nodes: list[tuple[str, int]], group: tuple[list[Json], int], resident: bool, tries: int
) -> None:
    members, least = group
    fitting = {zone: _active(_place(_core(nodes, resident), members, least, zone)) for zone in ZONES}
    most = max(fitting.values())

    with patch.object(gang_module, "_TRIES_A_STEP", tries):
        gang = _place(_core(nodes, resident), members, least)
    where = Counter(entry.node[0] for number in range(gang.size) if (entry := gang[number]).node)
    assert where in [Counter({zone: found}) for zone, found in fitting.items() if found == most]
