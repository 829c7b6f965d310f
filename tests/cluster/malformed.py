"""Malformed Reservations, grouped by their refuser: the API server or the operator."""

from typing import NamedTuple

from cluster.api import Manifest
from cluster.plain_reservations import amount, named, owned, requesting, required, reservation, templated


class Malformed(NamedTuple):
    """A bad Reservation, with the field that the refusal must name and words that it must contain."""

    name: str
    manifest: Manifest
    field: str
    words: str


LONG = 300 * "a"
CPU = "spec.resources[cpu]"
GPU = "nvidia.com/gpu"
REQUESTED_CPU = "spec.template.spec.containers[0].resources.requests[cpu]"
REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}

API_SERVER_REFUSES = [
    # Amounts
    Malformed("negative cpu", amount("cpu", "-1"), CPU, "more than 0"),
    Malformed("negative whole cpu", amount("cpu", -1), CPU, "more than 0"),
    Malformed("negative memory", amount("memory", "-1Gi"), "spec.resources[memory]", "more than 0"),
    Malformed("zero cpu", amount("cpu", "0"), CPU, "more than 0"),
    Malformed("zero whole cpu", amount("cpu", 0), CPU, "more than 0"),
    Malformed("zero with a unit", amount("memory", "0Gi"), "spec.resources[memory]", "more than 0"),
    Malformed("NaN", amount("cpu", "NaN"), CPU, "must be a quantity"),
    Malformed("Infinity", amount("cpu", "Infinity"), CPU, "must be a quantity"),
    Malformed("negative infinity", amount("cpu", "-Inf"), CPU, "must be a quantity"),
    Malformed("empty quantity", amount("cpu", ""), CPU, "must be a quantity"),
    Malformed("blank quantity", amount("cpu", "  "), CPU, "must be a quantity"),
    Malformed(
        "quantity with a space", amount("memory", "4 Gi"), "spec.resources[memory]", "must be a quantity"
    ),
    Malformed("unknown unit", amount("memory", "4GB"), "spec.resources[memory]", "must be a quantity"),
    Malformed("capital K", amount("memory", "4K"), "spec.resources[memory]", "must be a quantity"),
    Malformed(
        "underscores", amount("memory", "1_000_000_000"), "spec.resources[memory]", "must be a quantity"
    ),
    Malformed("hexadecimal", amount("cpu", "0x10"), CPU, "must be a quantity"),
    Malformed("other digits", amount("cpu", "\u0663"), CPU, "must be a quantity"),
    Malformed("decimal comma", amount("cpu", "1,5"), CPU, "must be a quantity"),
    Malformed("huge", amount("cpu", "1E"), CPU, "less than 1P"),
    Malformed("huge whole number", amount("cpu", 10**15), CPU, "less than 1P"),
    Malformed(
        "beyond 64 bits", amount("memory", "99999999999999999999"), "spec.resources[memory]", "less than 1P"
    ),
    Malformed("endless exponent", amount("cpu", "1e999999999"), CPU, "must be a quantity"),
    Malformed("huge exponent", amount("cpu", "1e99"), CPU, "less than 1P"),
    Malformed("long quantity", amount("cpu", "1" * 33), "spec.resources.cpu", "32"),
    Malformed(
        "memory without a unit", amount("memory", "4"), "spec.resources", "memory must be at least 1Mi"
    ),
    Malformed("whole memory without a unit", amount("memory", 4096), "spec.resources", "is its unit missing"),
    Malformed(
        "memory in thousandths", amount("memory", "4096m"), "spec.resources", "memory must be at least 1Mi"
    ),
    Malformed(
        "storage without a unit",
        amount("ephemeral-storage", "10"),
        "spec.resources",
        "ephemeral-storage must",
    ),
    Malformed("half a GPU", amount(GPU, "500m"), "spec.resources", "whole numbers"),
    Malformed("one and a half GPUs", amount(GPU, "1.5"), "spec.resources", "whole numbers"),
    Malformed(
        "boolean quantity", amount("cpu", True), "spec.resources.cpu", "must be of type integer,string"
    ),
    Malformed(
        "fractional number", amount("cpu", 1.5), "spec.resources.cpu", "must be of type integer,string"
    ),
    Malformed(
        "list as a quantity", amount("cpu", ["1"]), "spec.resources.cpu", "must be of type integer,string"
    ),
    Malformed(
        "object as a quantity", amount("cpu", {}), "spec.resources.cpu", "must be of type integer,string"
    ),
    # Resources
    Malformed("pods", amount("pods", "1"), "spec.resources", "pods are counted separately"),
    Malformed("unknown resource", amount("gpu", "1"), "spec.resources", "a resource is cpu"),
    Malformed("resource in capitals", amount("CPU", "1"), "spec.resources", "a resource is cpu"),
    Malformed("resource without a domain", amount("/gpu", "1"), "spec.resources", "a resource is cpu"),
    Malformed("nameless resource", amount("", "1"), "spec.resources", "a resource is cpu"),
    Malformed("long resource", amount(f"example.com/{LONG}", "1"), "spec.resources", "a resource is cpu"),
    Malformed(
        "too many resources",
        reservation(resources={f"example.com/r{n}": "1" for n in range(17)}),
        "spec.resources",
        "at most 16 items",
    ),
    Malformed("no resource", reservation(resources={}), "spec.resources", "at least 1"),
    Malformed(
        "resources as a list", reservation(resources=["cpu"]), "spec.resources", "must be of type object"
    ),
    Malformed(
        "resources and template",
        reservation(template={"spec": {"containers": [{"name": "web"}]}}),
        "spec.template",
        "exactly one of resources and template",
    ),
    Malformed(
        "neither resources nor template",
        reservation(resources=None),
        "spec.resources",
        "exactly one of resources and template",
    ),
    # Time
    Malformed(
        "expireAt and ttlSeconds",
        reservation(expireAt="2035-01-01T00:00:00Z"),
        "spec.expireAt",
        "exactly one of ttlSeconds and expireAt",
    ),
    Malformed(
        "neither expireAt nor ttlSeconds",
        reservation(ttlSeconds=None),
        "spec.ttlSeconds",
        "exactly one of ttlSeconds and expireAt",
    ),
    Malformed(
        "expireAt in words", reservation(ttlSeconds=None, expireAt="tomorrow"), "spec.expireAt", "date-time"
    ),
    Malformed(
        "expireAt as a date",
        reservation(ttlSeconds=None, expireAt="2035-01-01"),
        "spec.expireAt",
        "date-time",
    ),
    Malformed(
        "expireAt without a zone",
        reservation(ttlSeconds=None, expireAt="2035-01-01T00:00:00"),
        "spec.expireAt",
        "date-time",
    ),
    Malformed(
        "expireAt in the 13th month",
        reservation(ttlSeconds=None, expireAt="2035-13-01T00:00:00Z"),
        "spec.expireAt",
        "date-time",
    ),
    Malformed(
        "expireAt as a number",
        reservation(ttlSeconds=None, expireAt=2051222400),
        "spec.expireAt",
        "date-time",
    ),
    *(
        Malformed(
            f"expireAt in the year {instant[:4]}",
            reservation(ttlSeconds=None, expireAt=instant),
            "spec.expireAt",
            "between the years 1970 and 9998",
        )
        for instant in ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59.9999Z")
    ),
    *(
        Malformed(
            f"expireAt {text}", reservation(ttlSeconds=None, expireAt=text), "spec.expireAt", "should match"
        )
        for text in (
            "2035-01-01T00:00:00+24:00",
            "2035-01-01T00:00:00+12:60",
            "2035-01-01T00:00:00,5Z",
            "2035-01-01t00:00:00Z",
            "2035-01-01T00:00:00z",
        )
    ),
    Malformed(
        "startAt with a lower-case t", reservation(startAt="2035-01-01t00:00:00z"), "spec.startAt", "match"
    ),
    Malformed(
        "expireAt before the first year",
        reservation(ttlSeconds=None, expireAt="0000-01-01T00:00:00Z"),
        "spec.expireAt",
        "",
    ),
    Malformed("ttlSeconds 0", reservation(ttlSeconds=0), "spec.ttlSeconds", "greater than or equal to 1"),
    Malformed(
        "negative ttlSeconds", reservation(ttlSeconds=-1), "spec.ttlSeconds", "greater than or equal to 1"
    ),
    Malformed(
        "ttlSeconds of two years", reservation(ttlSeconds=63_072_000), "spec.ttlSeconds", "less than or equal"
    ),
    Malformed(
        "ttlSeconds as text", reservation(ttlSeconds="600"), "spec.ttlSeconds", "must be of type integer"
    ),
    Malformed(
        "fractional ttlSeconds", reservation(ttlSeconds=1.5), "spec.ttlSeconds", "must be of type integer"
    ),
    Malformed(
        "negative pendingDeadlineSeconds",
        reservation(pendingDeadlineSeconds=-1),
        "spec.pendingDeadlineSeconds",
        "greater than or equal to 0",
    ),
    Malformed(
        "negative ttlSecondsAfterFinished",
        reservation(ttlSecondsAfterFinished=-1),
        "spec.ttlSecondsAfterFinished",
        "greater than or equal to 0",
    ),
    # Owners
    Malformed("no owners", reservation(owners=None), "spec.owners", "Required"),
    Malformed("empty owners", owned(), "spec.owners", "at least 1 items"),
    Malformed("empty owner", owned({}), "spec.owners[0]", "an empty owner is refused"),
    Malformed(
        "second owner empty", owned({"pod": {"name": "a"}}, {}), "spec.owners[1]", "an empty owner is refused"
    ),
    Malformed(
        "empty selector", owned({"selector": {}}), "spec.owners[0].selector", "an empty selector is refused"
    ),
    Malformed(
        "selector without labels",
        owned({"selector": {"matchLabels": {}}}),
        "spec.owners[0].selector",
        "an empty selector is refused",
    ),
    Malformed("nameless pod", owned({"pod": {}}), "spec.owners[0].pod.name", "Required"),
    Malformed("empty pod name", owned({"pod": {"name": ""}}), "spec.owners[0].pod.name", "should match"),
    Malformed(
        "pod name in capitals", owned({"pod": {"name": "Web"}}), "spec.owners[0].pod.name", "should match"
    ),
    Malformed("long pod name", owned({"pod": {"name": LONG}}), "spec.owners[0].pod.name", "253"),
    Malformed("pod as text", owned({"pod": "web-0"}), "spec.owners[0].pod", "must be of type object"),
    Malformed("owners as an object", reservation(owners={}), "spec.owners", "must be of type array"),
    Malformed("owner as text", owned("web-0"), "spec.owners[0]", "must be of type object"),
    Malformed(
        "too many owners", owned(*17 * [{"pod": {"name": "web-0"}}]), "spec.owners", "at most 16 items"
    ),
    Malformed(
        "owner in another namespace",
        owned({"namespace": "other", "pod": {"name": "web-0"}}),
        "spec.owners[0].namespace",
        "own namespace",
    ),
    Malformed(
        "pod in another namespace",
        owned({"pod": {"name": "web-0", "namespace": "other"}}),
        "spec.owners[0].pod.namespace",
        "own namespace",
    ),
    Malformed(
        "controller in another namespace",
        owned({"controller": DEPLOYMENT | {"namespace": "other"}}),
        "spec.owners[0].controller.namespace",
        "own namespace",
    ),
    Malformed(
        "controller without a kind",
        owned({"controller": {"apiVersion": "apps/v1", "name": "web"}}),
        "spec.owners[0].controller.kind",
        "Required",
    ),
    Malformed(
        "controller kind with a space",
        owned({"controller": DEPLOYMENT | {"kind": "Stateful Set"}}),
        "spec.owners[0].controller.kind",
        "should match",
    ),
    Malformed(
        "controller apiVersion without a version",
        owned({"controller": DEPLOYMENT | {"apiVersion": "apps/"}}),
        "spec.owners[0].controller.apiVersion",
        "should match",
    ),
    Malformed(
        "bad label key",
        owned({"selector": {"matchLabels": {"-app-": "web"}}}),
        "spec.owners[0].selector.matchLabels",
        "label key",
    ),
    Malformed(
        "long label key",
        owned({"selector": {"matchLabels": {LONG: "web"}}}),
        "spec.owners[0].selector.matchLabels",
        "label key",
    ),
    Malformed(
        "bad label value",
        owned({"selector": {"matchLabels": {"app": "a b"}}}),
        "spec.owners[0].selector.matchLabels.app",
        "should match",
    ),
    Malformed(
        "too many conditions in all owners",
        owned(
            *16 * [{"selector": {"matchExpressions": 5 * [{"key": "app", "operator": "Exists"}]}}],
        ),
        "spec.owners",
        "at most 64 labels and expressions",
    ),
    Malformed(
        "unknown selector operator",
        owned({"selector": {"matchExpressions": [{"key": "app", "operator": "Like", "values": ["w"]}]}}),
        "spec.owners[0].selector.matchExpressions[0].operator",
        "Unsupported value",
    ),
    Malformed(
        "In without values",
        owned({"selector": {"matchExpressions": [{"key": "app", "operator": "In"}]}}),
        "spec.owners[0].selector.matchExpressions[0].values",
        "values are required",
    ),
    Malformed(
        "Exists with values",
        owned({"selector": {"matchExpressions": [{"key": "app", "operator": "Exists", "values": ["w"]}]}}),
        "spec.owners[0].selector.matchExpressions[0].values",
        "refused for Exists",
    ),
    # Placement
    Malformed("long node name", reservation(nodeName=LONG), "spec.nodeName", "253"),
    Malformed("empty node name", reservation(nodeName=""), "spec.nodeName", "should match"),
    Malformed("node name with a slash", reservation(nodeName="a/b"), "spec.nodeName", "should match"),
    Malformed("node name as a number", reservation(nodeName=7), "spec.nodeName", "must be of type string"),
    Malformed(
        "bad key in nodeSelector", reservation(nodeSelector={"a b": "c"}), "spec.nodeSelector", "label key"
    ),
    Malformed(
        "boolean in nodeSelector", reservation(nodeSelector={"ssd": True}), "spec.nodeSelector.ssd", "string"
    ),
    Malformed(
        "unknown operator in affinity",
        required(key="zone", operator="Near", values=["a"]),
        f"{REQUIRED}[0].matchExpressions[0].operator",
        "Unsupported value",
    ),
    Malformed(
        "In without values in affinity",
        required(key="zone", operator="In"),
        f"{REQUIRED}[0].matchExpressions[0].values",
        "values are required",
    ),
    Malformed(
        "Gt with a word in affinity",
        required(key="cores", operator="Gt", values=["many"]),
        f"{REQUIRED}[0].matchExpressions[0].values",
        "one whole number",
    ),
    Malformed(
        "no terms in affinity",
        reservation(
            affinity={
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}
            }
        ),
        REQUIRED,
        "at least 1 items",
    ),
    Malformed(
        "pod affinity",
        reservation(affinity={"podAntiAffinity": {}}),
        "spec.affinity.podAntiAffinity",
        "node affinity alone",
    ),
    Malformed(
        "toleration without key or Exists",
        reservation(tolerations=[{"effect": "NoSchedule"}]),
        "spec.tolerations[0].key",
        "required unless operator is Exists",
    ),
    Malformed(
        "toleration with a value for Exists",
        reservation(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
        "spec.tolerations[0].value",
        "refused when operator is Exists",
    ),
    Malformed(
        "unknown effect",
        reservation(tolerations=[{"key": "a", "effect": "Never"}]),
        "spec.tolerations[0].effect",
        "Unsupported value",
    ),
    # Template
    Malformed("negative request", requesting("cpu", "-1"), REQUESTED_CPU, "must not be negative"),
    Malformed("request that is no quantity", requesting("cpu", "two"), REQUESTED_CPU, "must be a quantity"),
    Malformed("huge request", requesting("cpu", "2P"), REQUESTED_CPU, "less than 1P"),
    Malformed(
        "request without a unit",
        requesting("memory", "512"),
        "spec.template.spec.containers[0].resources.requests",
        "is its unit missing",
    ),
    Malformed(
        "half a GPU requested",
        requesting(GPU, "0.5"),
        "spec.template.spec.containers[0].resources.requests",
        "whole numbers",
    ),
    Malformed("no containers", templated(containers=[]), "spec.template.spec.containers", "at least 1 items"),
    Malformed(
        "nameless container", templated(containers=[{}]), "spec.template.spec.containers[0].name", "Required"
    ),
    Malformed(
        "template without a spec",
        reservation(resources=None, template={"metadata": {}}),
        "spec.template.spec",
        "Required",
    ),
    Malformed(
        "unknown operator in the template",
        templated(tolerations=[{"key": "a", "operator": "Near"}]),
        "spec.template.spec.tolerations[0].operator",
        "Unsupported value",
    ),
    *(
        Malformed(
            f"{field} beside a template",
            reservation(
                resources=None, template={"spec": {"containers": [{"name": "web"}]}}, **{field: value}
            ),
            f"spec.{field}",
            "belongs in template.spec",
        )
        for field, value in (
            ("nodeSelector", {"ssd": "true"}),
            ("affinity", {"nodeAffinity": {}}),
            ("tolerations", [{"operator": "Exists"}]),
        )
    ),
    # The rest
    Malformed("unknown retention", reservation(retention="Keep"), "spec.retention", "Unsupported value"),
    Malformed("priority of the system", reservation(priority=2_000_000_000), "spec.priority", "1000000000"),
    Malformed("priority beyond 32 bits", reservation(priority=-(2**31) - 1), "spec.priority", "-2147483648"),
    Malformed(
        "unknown preemption policy",
        reservation(preemptionPolicy="Always"),
        "spec.preemptionPolicy",
        "PreemptLowerPriority",
    ),
    Malformed(
        "two phases and preemption",
        reservation(commit={}, preemptionPolicy="PreemptLowerPriority"),
        "spec.preemptionPolicy",
        "commit is refused beside preemptionPolicy PreemptLowerPriority",
    ),
    Malformed(
        "two phases and moves",
        reservation(commit={}, mayMove={"automatically": True}),
        "spec.mayMove",
        "commit is refused beside mayMove.automatically",
    ),
    Malformed("priority in words", reservation(priority="high"), "spec.priority", "must be of type integer"),
    Malformed(
        "unknown field", reservation(untilFurtherNotice=True), "spec.untilFurtherNotice", "unknown field"
    ),
    Malformed("no spec", reservation() | {"spec": None}, "spec", "Required"),
    Malformed("spec as text", reservation() | {"spec": "web"}, "spec", "must be of type object"),
    Malformed("long name", named(LONG), "metadata.name", "253"),
    Malformed("name in capitals", named("Web"), "metadata.name", "lowercase"),
]

OPERATOR_REFUSES: list[tuple[str, Manifest, str]] = [
    ("expireAt in the past", reservation(ttlSeconds=None, expireAt="2001-01-01T00:00:00Z"), "expireAt"),
    ("unknown node", reservation(nodeName="no-such-node"), "nodeName"),
    (
        "wrong type in a part of the template that is kept as it is",
        templated(schedulerName=5),
        "schedulerName",
    ),
]
