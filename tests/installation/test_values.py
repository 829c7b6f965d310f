"""The values of the chart: the effect of each, the schema that refuses wrong ones, and the notes."""

import json
from pathlib import Path

import pytest
import yaml

from installation.rendering import (
    ADDED,
    CHART,
    EVERYTHING,
    GONE,
    OVERLAYS,
    Charted,
    Manifest,
    RefusedError,
    by_key,
    changed,
)
from tidelock import __version__
from tidelock.model.api.reservation import ReservationSpec

POD = "Deployment/tidelock: spec.template.spec"
CONTAINER = f"{POD}.containers[0]"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
TOLERATION = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
AFFINITY: Manifest = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
ARGS = ["run", "--log-format", "json"]
EGRESS = "NetworkPolicy/tidelock-calls: spec.egress[0].ports"
KEEP = {"helm.sh/resource-policy": "keep"}
CRDS = [
    f"CustomResourceDefinition/{each}.tidelock.dev"
    for each in (
        "reservationgroups",
        "reservationquotas",
        "reservationquotes",
        "reservations",
        "reservationschedules",
        "waterlevels",
    )
]

TOKEN_MOUNT = {"name": "metrics-token", "mountPath": "/var/run/metrics", "readOnly": True}
TOKEN_SECRET = {"secretName": "scrapes", "items": [{"key": "bearer", "path": "token"}]}
TOKEN_VOLUME = {"name": "metrics-token", "secret": TOKEN_SECRET}

CHANGES: dict[str, tuple[Manifest, Manifest]] = {
    "repository": (
        {"image": {"repository": "example.org/tidelock"}},
        {f"{CONTAINER}.image": f"example.org/tidelock:{__version__}"},
    ),
    "tag": ({"image": {"tag": "edge"}}, {f"{CONTAINER}.image": "tidelock:edge"}),
    "digest": ({"image": {"digest": DIGEST}}, {f"{CONTAINER}.image": f"tidelock@{DIGEST}"}),
    "pull policy": ({"image": {"pullPolicy": "Always"}}, {f"{CONTAINER}.imagePullPolicy": "Always"}),
    "pull secrets": (
        {"imagePullSecrets": [{"name": "pull"}]},
        {f"{POD}.imagePullSecrets": [{"name": "pull"}]},
    ),
    "resources": (
        {"resources": {"requests": {"cpu": 1}, "limits": {"memory": "4Gi"}}},
        {f"{CONTAINER}.resources.requests.cpu": 1, f"{CONTAINER}.resources.limits.memory": "4Gi"},
    ),
    "node selector": ({"nodeSelector": {"pool": "system"}}, {f"{POD}.nodeSelector": {"pool": "system"}}),
    "tolerations": ({"tolerations": [TOLERATION]}, {f"{POD}.tolerations": [TOLERATION]}),
    "affinity": ({"affinity": AFFINITY}, {f"{POD}.affinity": AFFINITY}),
    "pod annotations": (
        {"podAnnotations": {"team": "a"}},
        {"Deployment/tidelock: spec.template.metadata.annotations": {"team": "a"}},
    ),
    "pod labels": (
        {"podLabels": {"team": "a"}},
        {"Deployment/tidelock: spec.template.metadata.labels.team": "a"},
    ),
    "extra args": (
        {"extraArgs": ["--log-level", "debug"]},
        {f"{CONTAINER}.args": [*ARGS, "--log-level", "debug"]},
    ),
    "an own class": (
        {"priorityClassName": "mine"},
        {f"{POD}.priorityClassName": "mine", "ResourceQuota/tidelock-critical-pods": GONE},
    ),
    "no class": (
        {"priorityClassName": ""},
        {f"{POD}.priorityClassName": None, "ResourceQuota/tidelock-critical-pods": GONE},
    ),
    "no quota": ({"criticalPods": 0}, {"ResourceQuota/tidelock-critical-pods": GONE}),
    "no policies": (
        {"networkPolicy": {"enabled": False}},
        {"NetworkPolicy/tidelock-calls": GONE, "NetworkPolicy/tidelock-metrics": GONE},
    ),
    "no CRDs": ({"crds": {"enabled": False}}, dict.fromkeys(CRDS, GONE)),
    "CRDs that go": ({"crds": {"keep": False}}, {f"{each}: metadata.annotations": None for each in CRDS}),
    "token": (
        {"metrics": {"tokenSecret": {"name": "scrapes", "key": "bearer"}}},
        {
            f"{CONTAINER}.args": [*ARGS, "--metrics-token-file", "/var/run/metrics/token"],
            f"{CONTAINER}.volumeMounts": [TOKEN_MOUNT],
            f"{POD}.volumes": [TOKEN_VOLUME],
        },
    ),
}


@pytest.fixture(scope="module")
def default(charted: Charted) -> list[Manifest]:
    return charted.objects({})


@pytest.mark.parametrize(("values", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_value_has_exactly_these_effects(
    charted: Charted, default: list[Manifest], values: Manifest, expected: Manifest
) -> None:
    assert changed(default, charted.objects(values)) == expected


def test_several_replicas_get_spread_constraints_and_a_disruption_budget(
    charted: Charted, default: list[Manifest]
) -> None:
    found = changed(default, charted.objects({"replicas": 3}))
    spread = found.pop(f"{POD}.topologySpreadConstraints")
    assert [each["topologyKey"] for each in spread] == [
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    ]
    assert found == {"Deployment/tidelock: spec.replicas": 3, "PodDisruptionBudget/tidelock": ADDED}


def test_egress_ports_are_added_to_the_network_policy(charted: Charted, default: list[Manifest]) -> None:
    found = changed(default, charted.objects({"networkPolicy": {"egressPorts": [8443, 9091]}}))
    assert found.keys() == {EGRESS}
    assert found[EGRESS][-3:] == [{"protocol": "TCP", "port": port} for port in (9090, 8443, 9091)]


def test_the_failure_policy_of_webhooks_can_be_ignore(charted: Charted) -> None:
    values = {"extender": {"enabled": True, "failurePolicy": "Ignore"}}
    found = changed(charted.objects(OVERLAYS["extender"]), charted.objects(values))
    reviews = "ValidatingWebhookConfiguration/tidelock: webhooks"
    answers = "MutatingWebhookConfiguration/tidelock: webhooks[0]"  # the other one is Ignore anyway
    webhooks = (f"{reviews}[0]", f"{reviews}[1]", answers)
    assert found == {f"{webhook}.failurePolicy": "Ignore" for webhook in webhooks}


def test_monitors_have_the_labels_and_the_token_for_prometheus(charted: Charted) -> None:
    settings = {"enabled": True, "labels": {"release": "prometheus"}, "interval": "1m"}
    values = {"monitoring": settings, "metrics": {"tokenSecret": {"name": "scrapes", "key": "bearer"}}}
    objects = by_key(charted.objects(values))
    monitor = objects["ServiceMonitor/tidelock"]
    for name in ("ServiceMonitor/tidelock", "PrometheusRule/tidelock"):
        assert objects[name]["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    token = {"credentials": {"name": "scrapes", "key": "bearer"}}
    assert endpoint == {"port": "http", "interval": "1m", "authorization": token}


def test_a_changed_configuration_restarts_the_operator(charted: Charted) -> None:
    before = charted.objects(OVERLAYS["scheduler"])
    values = {"configuration": OVERLAYS["scheduler"]["configuration"] | {"podMaxBackoffSeconds": 20}}
    found = changed(before, charted.objects(values))
    assert found.keys() == {
        "ConfigMap/tidelock-scheduler: data.config.yaml",
        "Deployment/tidelock: spec.template.metadata.annotations.checksum/configuration",
    }


def test_every_object_has_the_standard_labels(charted: Charted) -> None:
    standard = {
        "app.kubernetes.io/name": "tidelock",
        "app.kubernetes.io/instance": "tidelock",
        "app.kubernetes.io/version": __version__,
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": f"tidelock-{__version__}",
    }
    objects = charted.objects(EVERYTHING)
    assert objects
    for each in objects:
        assert each["metadata"]["labels"].items() >= standard.items()


def test_objects_in_another_namespace_do_not_mention_the_default_one(charted: Charted) -> None:
    """The account, the Service and the Secret must also be in the other namespace."""
    usual, elsewhere = charted.objects(EVERYTHING), charted.objects(EVERYTHING, namespace="locks")
    told = by_key(elsewhere)["Deployment/tidelock"]["spec"]["template"]["spec"]["containers"][0]["args"]
    names = ["--tls-names", "tidelock-binders.locks.svc", "--tls-secret", "locks/tidelock-tls"]
    begin = told.index(names[0])
    assert told[begin : begin + 4] == names
    del told[begin : begin + 4]
    renamed = yaml.safe_load(yaml.safe_dump(usual, width=10_000).replace("tidelock-system", "locks"))
    assert elsewhere == renamed


@pytest.mark.parametrize(
    "values", [{}, *OVERLAYS.values(), EVERYTHING], ids=["defaults", *OVERLAYS, "everything"]
)
def test_lint_finds_nothing(charted: Charted, values: Manifest) -> None:
    told = charted.run("lint", CHART, "--strict", "--values", "-", text=yaml.safe_dump(values))
    assert "1 chart(s) linted, 0 chart(s) failed" in told


@pytest.mark.parametrize(
    ("values", "field", "expectation"),
    [
        ({"replicas": 0}, "/replicas", "minimum"),
        ({"replicas": "two"}, "/replicas", "want integer"),
        ({"replica": 2}, "", "'replica' not allowed"),
        ({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy", "'IfNotPresent'"),
        ({"image": {"digest": "abc"}}, "/image/digest", "pattern"),
        ({"image": "tidelock:edge"}, "/image", "want object"),
        ({"resources": {"request": {}}}, "/resources", "'request' not allowed"),
        ({"tolerations": {"key": "a"}}, "/tolerations", "want array"),
        ({"tolerations": [{"keys": "a"}]}, "/tolerations/0", "'keys' not allowed"),
        ({"nodeSelector": {"pool": 1}}, "/nodeSelector/pool", "want string"),
        ({"extraArgs": "--log-level=debug"}, "/extraArgs", "want array"),
        ({"extraArgs": [1]}, "/extraArgs/0", "want string"),
        ({"configuration": {"kind": "Policy"}}, "/configuration", "apiVersion"),
        ({"crds": {"enabled": "yes"}}, "/crds/enabled", "want boolean"),
        ({"provisioningRequests": {"enabled": 1}}, "/provisioningRequests/enabled", "want boolean"),
        ({"extender": {"failurePolicy": "Retry"}}, "/extender/failurePolicy", "'Ignore'"),
        ({"metrics": {"tokenSecret": {"name": "a"}}}, "/metrics/tokenSecret", "'key'"),
        ({"monitoring": {"interval": "often"}}, "/monitoring/interval", "pattern"),
        ({"networkPolicy": {"egressPorts": [0]}}, "/networkPolicy/egressPorts/0", "minimum"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_refusal_of_a_wrong_value_names_its_field(
    charted: Charted, values: Manifest, field: str, expectation: str
) -> None:
    with pytest.raises(RefusedError) as told:
        charted.objects(values)
    lines = [line for line in str(told.value).splitlines() if f"at '{field}'" in line]
    assert any(expectation in line for line in lines), told.value


def test_the_schema_has_exactly_the_values_of_the_chart() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"]
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema.keys() == values.keys() | {
        "global"
    }  # Helm passes it to every chart that is part of another one
    for name in (
        "image",
        "crds",
        "extender",
        "provisioningRequests",
        "metrics",
        "monitoring",
        "networkPolicy",
    ):
        assert schema[name]["properties"].keys() == values[name].keys()


def test_the_chart_has_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_notes_of_the_chart_show_the_next_steps(charted: Charted) -> None:
    flags = ("--dry-run=client", "--namespace", "locks")
    told = charted.run("install", "tidelock", CHART, *flags).partition("NOTES:")[2]
    assert "kubectl rollout status deployment/tidelock -n locks" in told
    reservation = yaml.safe_load(told.partition("<<EOF\n")[2].partition("\nEOF\n")[0])
    assert ReservationSpec.model_validate(reservation["spec"]).ttl_seconds == 600


def test_a_packaged_chart_renders_the_same_objects(charted: Charted, tmp_path: Path) -> None:
    """A package would lack files that only a checkout has, such as links to other folders."""
    charted.run("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.iterdir()
    assert charted.objects(EVERYTHING, chart=package) == charted.objects(EVERYTHING)
