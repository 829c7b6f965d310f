"""All plugins of the default profile together, on clusters with every feature that pods can ask for."""

from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import Json, encode
from differential.profiles import configuration
from differential.scenario import Scenario
from differential.scenarios import make_scenario
from tidelock.framework.config import read_configuration
from tidelock.model.nodes import decode_node
from tidelock.model.pods import Pod, decode_pod
from tidelock.plugins.registry import BUILTINS, REGISTRY
from tidelock.scheduler.core.cycle import AssumedPod
from tidelock.scheduler.core.outcomes import ExtenderCall
from tidelock.scheduler.informers.informers import decoder_of
from unit.scheduler.machinery import Core

CONFIGURATION = read_configuration(configuration(), BUILTINS, lambda _: {})
OBJECTS = {
    "namespaces": "namespaces",
    "services": "services",
    "volumes": "persistent_volumes",
    "claims": "persistent_volume_claims",
    "csi_nodes": "csi_nodes",
}
SEEDS = st.integers(0, 100_000)


def stored(objects: list[Json]) -> list[bytes]:
    """Encode objects as the API server would, with a UID and a version."""
    for each in objects:
        meta = each["metadata"]
        meta["uid"] = f"{meta.get('namespace', '')}/{meta['name']}"
        meta["resourceVersion"] = "1"
    return [encode(each) for each in objects]


def furnished(scenario: Scenario) -> Core:
    """Build a scheduler with all objects of a scenario except the pods in `wanting`."""
    core = Core(*map(decode_node, stored(scenario.nodes)), configuration=CONFIGURATION)
    for name, field in OBJECTS.items():
        for raw in stored(getattr(scenario, name)):
            getattr(core.decider.objects, field).upsert(None, decoder_of(field)(raw))
    core.add(*map(decode_pod, stored(scenario.residents)))
    return core


def decide(core: Core, wanting: Pod) -> str:
    """Return the node of a pod, or the message of its refusal."""
    core.add(wanting)
    outcome = core.step()
    assert outcome is not None
    assert not isinstance(outcome, ExtenderCall)
    if isinstance(outcome, AssumedPod):
        return outcome.node_name
    assert not outcome.diagnosis.error, outcome.diagnosis.message
    return outcome.diagnosis.message


def state(core: Core) -> dict[str, Any]:
    """Return the amounts that the columns count, by node name."""
    columns = core.decider.columns
    return {
        node.name: (
            columns.named(columns.requested[row]),
            columns.named(columns.reserved[row]),
            columns.nonzero[row].tolist(),
        )
        for row, node in enumerate(columns.nodes)
    }


@given(SEEDS, st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=25)
def test_a_permutation_of_the_nodes_changes_no_decision(seed: int, rng: Random) -> None:
    plain, shuffled = (make_scenario(seed, frozenset(REGISTRY), 3) for _ in range(2))
    rng.shuffle(shuffled.nodes)
    cores = furnished(plain), furnished(shuffled)

    for raw in stored(plain.wanting):
        first, second = (decide(core, decode_pod(raw)) for core in cores)
        assert first == second
    assert state(cores[0]) == state(cores[1])


@given(SEEDS)
@settings(deadline=None, max_examples=25)
def test_a_pod_that_is_assumed_and_forgotten_leaves_no_trace(seed: int) -> None:
    scenario = make_scenario(seed, frozenset(REGISTRY), 3)
    core, untouched = furnished(scenario), furnished(scenario)
    first, *others = map(decode_pod, stored(scenario.wanting))

    core.add(first)
    outcome = core.step()
    if isinstance(outcome, AssumedPod):
        core.decider.binding_failed(outcome, core.clock.now())
    core.event_handlers.pods.remove(first)
    core.take_preemptions()

    assert state(core) == state(untouched)
    assert [decide(core, each) for each in others] == [decide(untouched, each) for each in others]


OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near", ""])
ODD = st.sampled_from(["", "a", "1", "-1", "1_000", "9" * 30, "é", "kubernetes.io/hostname"])
EXPRESSIONS = st.lists(
    st.fixed_dictionaries(
        {"key": ODD, "operator": OPERATORS}, optional={"values": st.lists(ODD, max_size=3)}
    ),
    max_size=2,
)
SELECTORS = st.none() | st.fixed_dictionaries(
    {}, optional={"matchLabels": st.dictionaries(ODD, ODD, max_size=2), "matchExpressions": EXPRESSIONS}
)
TERMS = st.lists(
    st.fixed_dictionaries(
        {"topologyKey": ODD},
        optional={
            "labelSelector": SELECTORS,
            "namespaceSelector": SELECTORS,
            "namespaces": st.lists(ODD, max_size=2),
        },
    ),
    max_size=2,
)
NODE_TERMS = st.lists(
    st.fixed_dictionaries({}, optional={"matchExpressions": EXPRESSIONS, "matchFields": EXPRESSIONS}),
    max_size=2,
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "affinity": st.fixed_dictionaries(
            {},
            optional={
                "nodeAffinity": st.fixed_dictionaries(
                    {REQUIRED: st.fixed_dictionaries({"nodeSelectorTerms": NODE_TERMS})}
                ),
                "podAffinity": st.fixed_dictionaries({REQUIRED: TERMS}),
                "podAntiAffinity": st.fixed_dictionaries({REQUIRED: TERMS}),
            },
        ),
        "topologySpreadConstraints": st.lists(
            st.fixed_dictionaries(
                {
                    "maxSkew": st.integers(-1, 3),
                    "topologyKey": ODD,
                    "whenUnsatisfiable": ODD | st.just("DoNotSchedule"),
                },
                optional={
                    "labelSelector": SELECTORS,
                    "minDomains": st.none() | st.integers(-1, 5),
                    "nodeAffinityPolicy": ODD,
                    "matchLabelKeys": st.lists(ODD, max_size=2),
                },
            ),
            max_size=2,
        ),
        "tolerations": st.lists(
            st.fixed_dictionaries({}, optional={"key": ODD, "operator": OPERATORS, "effect": ODD}), max_size=2
        ),
        "volumes": st.lists(
            st.fixed_dictionaries(
                {"name": ODD},
                optional={
                    "persistentVolumeClaim": st.fixed_dictionaries({"claimName": ODD}),
                    "ephemeral": st.just({}),
                },
            ),
            max_size=2,
        ),
        "priority": st.sampled_from([-(2**31), 0, 2**31 - 1]),
        "preemptionPolicy": ODD,
        "nodeSelector": st.dictionaries(ODD, ODD, max_size=1),
    },
)


@given(SEEDS, SPECS)
@settings(deadline=None, max_examples=60)
def test_no_spec_of_a_pod_prevents_the_next_decision(seed: int, spec: Json) -> None:
    """Check that a pod with any spec is placed, refused or fails alone, and that the next pod is decided."""
    scenario = make_scenario(seed, frozenset(REGISTRY), 1)
    core = furnished(scenario)
    odd = {"metadata": {"name": "odd", "namespace": "default", "uid": "odd"}, "spec": spec}
    odd["spec"] |= {"schedulerName": "default-scheduler", "containers": [{"name": "main"}]}

    core.add(decode_pod(encode(odd)))
    core.step()

    (wanting,) = stored(scenario.wanting)
    decide(core, decode_pod(wanting))
