"""The values of the chart: the effect of each, the schema that refuses wrong ones, and the notes."""

import base64
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from documents import Block, Kind, blocks, kind_of
from installation.rendering import (
    ADDED,
    CHART,
    EVERYTHING,
    GONE,
    PARTS,
    PLATFORM,
    Charted,
    Manifest,
    RefusedError,
    by_key,
    changed,
)
from tidelock import __version__
from tidelock.model.api.reservation import ReservationSpec
from tidelock.settings import Settings

POD = "Deployment/tidelock: spec.template.spec"
CONTAINER = f"{POD}.containers[0]"
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
TOLERATION = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
SPREAD = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
SPILL: Manifest = {"name": "spill", "emptyDir": {}}
SPILL_MOUNT = {"name": "spill", "mountPath": "/spill"}
POD_IP = {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
PROXY = {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}
SCRAPERS = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
AFFINITY: Manifest = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
ARGS = ["run", "--log-format", "json"]
EGRESS = "NetworkPolicy/tidelock-calls: spec.egress[0].ports"
PEERS = "NetworkPolicy/tidelock-metrics: spec.ingress[0].from"
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

# Values that are a mapping as a whole, of which the chart sets only some fields.
MAPPINGS = {
    "strategy",
    "affinity",
    "configuration",
    "tokenSecret",
    "issuerRef",
    "startupProbe",
    "livenessProbe",
    "readinessProbe",
}

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
    "strategy": (
        {"strategy": {"type": "Recreate"}},
        {"Deployment/tidelock: spec.strategy": {"type": "Recreate"}},
    ),
    "annotations of the account": (
        {"serviceAccount": {"annotations": {"role": "a"}}},
        {"ServiceAccount/tidelock: metadata.annotations": {"role": "a"}},
    ),
    "spread": ({"topologySpreadConstraints": [SPREAD]}, {f"{POD}.topologySpreadConstraints": [SPREAD]}),
    "network of the host": (
        {"hostNetwork": True},
        {f"{POD}.hostNetwork": True, f"{POD}.dnsPolicy": "ClusterFirstWithHostNet"},
    ),
    "port": (
        {"ports": {"http": 18080}},
        {f"{CONTAINER}.args": [*ARGS, "--port", "18080"], f"{CONTAINER}.ports[0].containerPort": 18080},
    ),
    "security context of the pod": (
        {"podSecurityContext": {"runAsUser": 1000, "fsGroup": 1000}},
        {f"{POD}.securityContext.runAsUser": 1000, f"{POD}.securityContext.fsGroup": 1000},
    ),
    "security context of the container": (
        {"securityContext": {"readOnlyRootFilesystem": False}},
        {f"{CONTAINER}.securityContext.readOnlyRootFilesystem": False},
    ),
    "probes": (
        {
            "startupProbe": {"failureThreshold": 300},
            "livenessProbe": {"failureThreshold": 6},
            "readinessProbe": {"periodSeconds": 5},
        },
        {
            f"{CONTAINER}.startupProbe.failureThreshold": 300,
            f"{CONTAINER}.livenessProbe.failureThreshold": 6,
            f"{CONTAINER}.readinessProbe.periodSeconds": 5,
        },
    ),
    "log level": ({"logLevel": "debug"}, {f"{CONTAINER}.args": [*ARGS, "--log-level", "debug"]}),
    "environment": ({"extraEnv": [PROXY]}, {f"{CONTAINER}.env": [PROXY]}),
    "volumes": (
        {"extraVolumes": [SPILL], "extraVolumeMounts": [SPILL_MOUNT]},
        {f"{POD}.volumes": [SPILL], f"{CONTAINER}.volumeMounts": [SPILL_MOUNT]},
    ),
    "scrapers": (
        {"networkPolicy": {"ingressFrom": SCRAPERS}},
        {
            f"{PEERS}[0].namespaceSelector.matchLabels.{name}": value
            for name, value in (("metrics", None), ("kubernetes.io/metadata.name", "monitoring"))
        },
    ),
    "web view": (
        {"webView": {"enabled": True}},
        {
            f"{CONTAINER}.args": [*ARGS, "--web-view", "--web-address", "$(POD_IP)"],
            f"{CONTAINER}.env": [POD_IP],
            "Service/tidelock-web": ADDED,
            "Role/tidelock-web": ADDED,
            "RoleBinding/tidelock-web": ADDED,
        },
    ),
    "extra args": (
        {"extraArgs": ["--lease-name", "other"]},
        {f"{CONTAINER}.args": [*ARGS, "--lease-name", "other"]},
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
    assert found.pop("Deployment/tidelock: spec.strategy")["rollingUpdate"]["maxUnavailable"] == 1
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
    found = changed(charted.objects(PARTS["components/extender"]), charted.objects(values))
    reviews = "ValidatingWebhookConfiguration/tidelock: webhooks"
    answers = "MutatingWebhookConfiguration/tidelock: webhooks[0]"  # the other one is Ignore anyway
    webhooks = (*(f"{reviews}[{number}]" for number in range(3)), answers)
    assert found == {f"{webhook}.failurePolicy": "Ignore" for webhook in webhooks}


def test_the_certificate_of_the_extender_can_be_that_of_cert_manager(charted: Charted) -> None:
    issuer = {"name": "internal", "kind": "ClusterIssuer"}
    values = {"extender": {"enabled": True}, "certManager": {"enabled": True, "issuerRef": issuer}}
    objects = charted.objects(values)
    found = changed(charted.objects(PARTS["components/extender"]), objects)
    args = found.pop(f"{CONTAINER}.args")
    assert "--no-tls-rotate" in args
    injected = {"cert-manager.io/inject-ca-from": "tidelock-system/tidelock-tls"}
    assert found == {
        "Secret/tidelock-tls": GONE,
        "Certificate/tidelock-tls": ADDED,
        "ValidatingWebhookConfiguration/tidelock: metadata.annotations": injected,
        "MutatingWebhookConfiguration/tidelock: metadata.annotations": injected,
    }
    spec = by_key(objects)["Certificate/tidelock-tls"]["spec"]
    assert (spec["secretName"], spec["issuerRef"]) == ("tidelock-tls", issuer)
    assert tuple(spec["dnsNames"]) == Settings().tls_names


def test_the_certificate_of_the_extender_can_be_the_users(charted: Charted) -> None:
    found = changed(
        charted.objects(PARTS["components/extender"]),
        charted.objects({"extender": {"enabled": True, "caBundle": "QUJD"}}),
    )
    assert "--no-tls-rotate" in found.pop(f"{CONTAINER}.args")
    bundles = {
        f"{kind}WebhookConfiguration/tidelock: webhooks[{number}].clientConfig.caBundle": "QUJD"
        for kind, count in (("Validating", 3), ("Mutating", 2))
        for number in range(count)
    }
    assert found == {"Secret/tidelock-tls": GONE} | bundles


def test_the_port_of_the_extender_can_be_another(charted: Charted) -> None:
    found = changed(
        charted.objects(PARTS["components/extender"]),
        charted.objects({"extender": {"enabled": True}, "ports": {"https": 18443}}),
    )
    assert found.pop(f"{CONTAINER}.args")[-2:] == ["--tls-port", "18443"]
    assert found == {f"{CONTAINER}.ports[1].containerPort": 18443}


def test_the_ingress_exposes_only_the_web_view(charted: Charted) -> None:
    """Metrics and probes are on the same port."""
    tls = [{"secretName": "web", "hosts": ["tidelock.example.org"]}]
    ingress = {"enabled": True, "className": "nginx", "annotations": {"a": "b"}, "tls": tls}
    values = {"webView": {"enabled": True, "ingress": {**ingress, "hosts": ["tidelock.example.org"]}}}
    objects = by_key(charted.objects(values))
    made = objects["Ingress/tidelock-web"]
    assert (made["spec"]["ingressClassName"], made["spec"]["tls"]) == ("nginx", tls)
    assert made["metadata"]["annotations"] == {"a": "b"}
    ((path,),) = [rule["http"]["paths"] for rule in made["spec"]["rules"]]
    assert (path["path"], path["pathType"]) == ("/web", "Prefix")
    (port,) = objects["Service/tidelock-web"]["spec"]["ports"]
    assert path["backend"]["service"] == {"name": "tidelock-web", "port": {"name": port["name"]}}
    (scraped,) = objects["Service/tidelock"]["spec"]["ports"]
    assert port["name"] != scraped["name"]
    assert "selector" not in objects["Service/tidelock-web"]["spec"]


def test_monitoring_objects_can_be_in_another_namespace(charted: Charted) -> None:
    settings = {"enabled": True, "namespace": "monitoring"}
    found = changed(charted.objects(PARTS["monitoring"]), charted.objects({"monitoring": settings}))
    moved = (
        "ServiceMonitor/tidelock",
        "PrometheusRule/tidelock",
        "ConfigMap/tidelock-dashboard",
        "ConfigMap/tidelock-kube-state-metrics",
    )
    assert found == {f"{each}: metadata.namespace": "monitoring" for each in moved}


def test_the_dashboard_has_its_own_labels_and_annotations(charted: Charted) -> None:
    dashboard = {"labels": {"grafana_dashboard": None, "board": "yes"}, "annotations": {"folder": "Tidelock"}}
    found = changed(
        charted.objects(PARTS["monitoring"]),
        charted.objects({"monitoring": {"enabled": True, "dashboard": dashboard}}),
    )
    metadata = "ConfigMap/tidelock-dashboard: metadata"
    assert found == {
        f"{metadata}.labels.grafana_dashboard": None,
        f"{metadata}.labels.board": "yes",
        f"{metadata}.annotations": {"folder": "Tidelock"},
    }


def test_alerts_can_point_to_another_page_of_runbooks(charted: Charted) -> None:
    settings = {"enabled": True, "runbookUrl": "https://example.org/tidelock/runbooks.html"}
    rules = by_key(charted.objects({"monitoring": settings}))["PrometheusRule/tidelock"]
    urls = [
        rule["annotations"]["runbook_url"] for group in rules["spec"]["groups"] for rule in group["rules"]
    ]
    assert urls
    assert {url.partition("#")[0] for url in urls} == {settings["runbookUrl"]}


def test_all_objects_and_pods_have_the_common_labels(charted: Charted) -> None:
    values = EVERYTHING | {"commonLabels": {"team": "a", "app.kubernetes.io/name": "ignored"}}
    values |= {"podLabels": {"tier": "b", "team": "c"}}
    objects = by_key(charted.objects(values))
    for each in objects.values():
        assert (
            each["metadata"]["labels"].items() >= {"team": "a", "app.kubernetes.io/name": "tidelock"}.items()
        )
    deployment = objects["Deployment/tidelock"]["spec"]
    pod = {"team": "c", "tier": "b", "app.kubernetes.io/name": "tidelock"}
    assert deployment["template"]["metadata"]["labels"] == pod
    assert deployment["selector"]["matchLabels"] == {"app.kubernetes.io/name": "tidelock"}


def test_monitors_have_the_labels_and_the_token_for_prometheus(charted: Charted) -> None:
    settings = {"enabled": True, "labels": {"release": "prometheus"}, "interval": "1m"}
    values = {"monitoring": settings, "metrics": {"tokenSecret": {"name": "scrapes", "key": "bearer"}}}
    objects = by_key(charted.objects(values))
    monitor = objects["ServiceMonitor/tidelock"]
    for name in ("ServiceMonitor/tidelock", "PrometheusRule/tidelock"):
        assert objects[name]["metadata"]["labels"]["release"] == "prometheus"
    (endpoint,) = monitor["spec"]["endpoints"]
    token = {"credentials": {"name": "scrapes", "key": "bearer"}}
    assert endpoint == {"port": "http", "interval": "1m", "authorization": token, "honorLabels": True}


def test_a_changed_configuration_restarts_the_operator(charted: Charted) -> None:
    before = charted.objects(PARTS["components/scheduler"])
    values = {"configuration": PARTS["components/scheduler"]["configuration"] | {"podMaxBackoffSeconds": 20}}
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
    "values",
    [{}, *PARTS.values(), EVERYTHING, PLATFORM],
    ids=["defaults", *PARTS, "everything", "platform"],
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
        ({"logLevel": "trace"}, "/logLevel", "'warning'"),
        ({"livenessProbe": {"httpGet": {}}}, "/livenessProbe", "'httpGet' not allowed"),
        ({"extraEnv": [{"value": "a"}]}, "/extraEnv/0", "'name'"),
        ({"strategy": {"type": "Blue"}}, "/strategy/type", "'Recreate'"),
        ({"ports": {"http": 0}}, "/ports/http", "minimum"),
        ({"extender": {"caBundle": "-----BEGIN"}}, "/extender/caBundle", "pattern"),
        ({"certManager": {"enabled": True}}, "/certManager/issuerRef", "'name'"),
        ({"webView": {"ingress": {"enabled": True}}}, "/webView/ingress/hosts", "minItems"),
        ({"monitoring": {"runbookUrl": "docs"}}, "/monitoring/runbookUrl", "pattern"),
        ({"networkPolicy": {"ingressFrom": []}}, "/networkPolicy/ingressFrom", "minItems"),
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
    groups = [
        (known, value)
        for name, known in schema.items()
        if (value := values.get(name)) and known.get("properties") and name not in MAPPINGS
    ]
    for known, value in groups:
        assert known["properties"].keys() == value.keys()
        groups += [(known["properties"][name], each) for name, each in value.items() if is_group(known, name)]
    assert len(groups) > len(MAPPINGS)


def is_group(schema: Manifest, name: str) -> bool:
    return "properties" in schema["properties"][name] and name not in MAPPINGS


def test_the_icon_is_a_picture_in_the_chart_itself() -> None:
    kind, _, data = yaml.safe_load((CHART / "Chart.yaml").read_text())["icon"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert ET.fromstring(base64.b64decode(data)).tag == "{http://www.w3.org/2000/svg}svg"  # noqa: S314


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


SHOWN = [block for block in blocks() if block.language == "yaml" and kind_of(block) == Kind.VALUES]


@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_the_values_of_a_page_render_and_change_something(charted: Charted, block: Block) -> None:
    (values,) = block.documents
    assert charted.objects(values) != charted.objects({})
