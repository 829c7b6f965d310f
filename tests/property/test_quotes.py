"""A quote equals the decisions that follow if nothing else changes, and it leaves no trace."""

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import NAMESPACE, Json, encode, node, pod
from tidelock.model.api.reservation import Phase
from tidelock.model.reservation_quote import decode_quote
from unit.scheduler.machinery import Core

CORES = st.integers(0, 6)


@st.composite
def worlds(draw: st.DrawFn) -> Core:
    """Draw nodes with pods and reservations, and decide all reservations."""
    count = draw(st.integers(0, 4))
    nodes = [
        node(
            f"node-{number}",
            cpu=str(draw(CORES)),
            memory=f"{draw(CORES)}Gi",
            pods=str(draw(CORES)),
            labels={"zone": draw(st.sampled_from("ab")), "host": f"node-{number}"},
            cordoned=draw(st.booleans()) and draw(st.booleans()),
        )
        for number in range(count)
    ]
    core = Core(*nodes)
    for number, each in enumerate(nodes):
        if draw(st.booleans()):
            labels = draw(st.sampled_from([{}, {"app": "web"}]))
            core.add(pod(f"pod-{number}", node_name=each.name, requests={"cpu": "1"}, labels=labels))
    for number in range(draw(st.integers(0, 4))):
        core.reservation(
            f"lock-{number}", owner=f"none-{number}", resources={"cpu": str(draw(st.integers(1, 2)))}
        )
    core.step()
    return core


def template(cpu: str, host_port: int = 0, **spec: object) -> Json:
    ports = [{"containerPort": 80, "hostPort": host_port}] if host_port else []
    container = {"name": "main", "ports": ports, "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}


def term(key: str) -> Json:
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": "web"}}}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": terms}


def spread(skew: int, key: str, **more: object) -> Json:
    selector = {"matchLabels": {"app": "web"}}
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [constraint | {"labelSelector": selector} | more]}


TEMPLATES = st.sampled_from(
    [
        template("1"),
        template("1", 8080),
        *(template("1", affinity={kind: term("zone")}) for kind in ("podAffinity", "podAntiAffinity")),
        template("500m", **spread(1, "zone")),
        template("1", **spread(2, "zone", minDomains=3)),
        template("1", **spread(1, "host"), affinity={"podAffinity": term("zone")}),
    ]
).map(lambda each: {"template": each})
"""Pods with constraints that concern each other."""

ASKS = TEMPLATES | st.fixed_dictionaries(
    {
        "resources": st.sampled_from(
            [{"cpu": "1"}, {"cpu": "2"}, {"memory": "1Gi"}, {"cpu": "1", "memory": "2Gi"}]
        )
    },
    optional={"nodeSelector": st.sampled_from([{"zone": "a"}, {"zone": "c"}])},
)


def counted(core: Core) -> object:
    columns = core.decider.columns
    return columns.requested.tolist(), columns.reserved.tolist(), columns.clock, columns.freed


@given(worlds(), ASKS)
@settings(deadline=None, max_examples=60)
def test_as_many_reservations_as_quoted_become_active_the_first_on_the_quoted_node(
    core: Core, ask: dict[str, object]
) -> None:
    metadata = {"name": "ask", "namespace": NAMESPACE, "uid": "uid-ask", "generation": 1}
    quote = decode_quote(encode({"metadata": metadata, "spec": ask}))
    assert quote.pod is not None
    before, held = counted(core), {key: entry.held for key, entry in core.ledger.entries.items()}

    answer = core.decider.quote(quote.pod, core.clock.now())
    again = core.decider.quote(quote.pod, core.clock.now())

    assert answer == again
    assert counted(core) == before
    assert {key: entry.held for key, entry in core.ledger.entries.items()} == held
    assert answer.feasible == (answer.count > 0) == bool(answer.node)
    for number in range(answer.count + 1):
        entry = core.reservation(f"asked-{number}", owner=f"other-{number}", **({"resources": None} | ask))
        core.step()
        assert (entry.phase is Phase.ACTIVE) == (number < answer.count)
        if number == 0:
            assert entry.node == answer.node
