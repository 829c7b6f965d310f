"""Writes the templates of the Helm chart that are copies of manifests, and its README: write_chart FOLDER.

A manifest is copied as text, so that its comments and its layout stay. It gets the release's namespace and
labels, and the condition under which the chart has it. Templates that values change more deeply are written
by hand, beside the folders that this program fills. tests/installation compares the chart with the output of
kustomize.
"""

import argparse
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from chart_readme import readme

MANIFESTS = Path(__file__).parents[1] / "manifests"
NAMESPACE = "tidelock-system"
_RELEASE_NAMESPACE = "{{ .Release.Namespace }}"
_LABELS = '    {{- include "tidelock.labels" . | nindent 4 }}\n'
_LABELS_WITH = '    {{{{- include "tidelock.labelsWith" (list . {value}) | nindent 4 }}}}\n'
OF_THE_CLUSTER = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "FlowSchema",
        "PriorityLevelConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
    }
)
_ANNOTATIONS = """\
  {{{{- with {value} }}}}
  annotations:
    {{{{- toYaml . | nindent 4 }}}}
  {{{{- end }}}}
"""
_CRD = "CustomResourceDefinition"
# Helm keeps the CRDs when the release is removed. Otherwise all Reservations would be deleted with them.
_KEEP = "  annotations:\n    helm.sh/resource-policy: keep\n"
_HEADER = "{{{{- /* Written by hack/update-chart from {source}; not to be edited by hand. */}}}}\n"


@dataclass(frozen=True)
class Source:
    """A folder of manifests with a kustomization, and the rules for its copy in the chart.

    Attributes:
        folder: its path in the repository. The last part names the folder of templates.
        condition: the value with which the chart has these objects. Empty means always.
        namespace: the template of the namespace of its objects.
        labels: a value with labels of its objects, in addition to those of all objects.
        config_labels: by ConfigMap that is made from files, a value in place of its own labels.
        config_annotations: by ConfigMap, a value with its annotations.
        by_hand: files without a copy, because the chart has its own template for them, or none.
        edits: by file, texts that values replace wherever they occur.
        conditions: by file, a condition in addition to the folder's.

    """

    folder: str
    condition: str = ""
    namespace: str = _RELEASE_NAMESPACE
    labels: str = ""
    config_labels: Mapping[str, str] = field(default_factory=dict)
    config_annotations: Mapping[str, str] = field(default_factory=dict)
    kustomization: str = "kustomization.yaml"
    by_hand: frozenset[str] = frozenset()
    edits: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)


# Texts that values replace, each with its replacement.
_ANNOTATED_ACCOUNT = (
    "# The operator's pod requests its token",
    """\
  {{- with .Values.serviceAccount.annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
# The operator's pod requests its token""",
)
_INGRESS = (
    """\
    - from:
        - namespaceSelector:
            matchLabels:
              metrics: enabled
""",
    """\
    - from:
        {{- toYaml .Values.networkPolicy.ingressFrom | nindent 8 }}
""",
)
_EGRESS = (
    """\
        - {protocol: TCP, port: 9090}
""",
    """\
        - {protocol: TCP, port: 9090}
        {{- range .Values.networkPolicy.egressPorts }}
        - {protocol: TCP, port: {{ . }}}
        {{- end }}
""",
)
_FAILURE_POLICY = (
    "    failurePolicy: Fail\n",
    "    failurePolicy: {{ .Values.extender.failurePolicy }}\n",
)
_INJECTED = (
    "metadata:\n  name: tidelock\n",
    """\
metadata:
  name: tidelock
  {{- if and .Values.certManager.enabled (not .Values.extender.caBundle) }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/tidelock-tls
  {{- end }}
""",
)
_AUTHORITY = """\
      {{- with .Values.extender.caBundle }}
      caBundle: {{ . }}
      {{- end }}
"""
_AUTHORITIES = tuple(
    (
        f"    clientConfig: &{anchor}\n",
        f"    clientConfig: &{anchor}\n{_AUTHORITY}",
    )
    for anchor in ("service", "creations")
)
_SCRAPES = (
    """\
      interval: 15s
""",
    """\
      interval: {{ .Values.monitoring.interval }}
      {{- with .Values.metrics.tokenSecret }}
      authorization:
        credentials: {name: {{ .name }}, key: {{ .key }}}
      {{- end }}
""",
)
_RUNBOOKS = ("https://tidelock.dev/runbooks.html", "{{ .Values.monitoring.runbookUrl }}")
_DASHBOARD = "tidelock-dashboard"
SOURCES = (
    Source("crds", ".Values.crds.enabled", kustomization="Kustomization"),
    Source(
        "manifests/base",
        by_hand=frozenset({"namespace.yaml", "deployment.yaml", "resource-quota.yaml"}),
        conditions={"network-policies.yaml": ".Values.networkPolicy.enabled"},
        edits={
            "network-policies.yaml": [_INGRESS, _EGRESS],
            "service-account.yaml": [_ANNOTATED_ACCOUNT],
        },
    ),
    Source(
        "manifests/components/extender",
        ".Values.extender.enabled",
        conditions={
            "network-policy.yaml": ".Values.networkPolicy.enabled",
            "secret.yaml": '(not (include "tidelock.foreignCertificate" .))',
        },
        edits={"webhooks.yaml": [_FAILURE_POLICY, _INJECTED, *_AUTHORITIES]},
    ),
    Source("manifests/components/provisioning-requests", ".Values.provisioningRequests.enabled"),
    Source(
        "manifests/components/karmada",
        ".Values.karmada.cluster",
        conditions={"network-policy.yaml": ".Values.networkPolicy.enabled"},
    ),
    Source("manifests/components/autoscalers", ".Values.autoscalers.enabled"),
    Source("manifests/components/pod-groups", ".Values.podGroups.enabled"),
    Source(
        "manifests/monitoring",
        ".Values.monitoring.enabled",
        namespace='{{ include "tidelock.monitoringNamespace" . }}',
        labels=".Values.monitoring.labels",
        config_labels={_DASHBOARD: ".Values.monitoring.dashboard.labels"},
        config_annotations={_DASHBOARD: ".Values.monitoring.dashboard.annotations"},
        edits={"service-monitor.yaml": [_SCRAPES], "rules.yaml": [_RUNBOOKS]},
    ),
)


def template(source: Source, name: str, text: str) -> str:
    """Return the template of one manifest.

    Raises:
        ValueError: a text that a value replaces is not in the manifest.

    """
    text = text.replace("{{", "{{ `{{` }}")
    text = text.replace(NAMESPACE, _RELEASE_NAMESPACE)
    documents = [_labelled(source, document) for document in re.split(r"^---\n", text, flags=re.MULTILINE)]
    text = "---\n".join(documents)
    for old, new in source.edits.get(name, ()):
        if old not in text:
            raise ValueError(f"{source.folder}/{name}: expected {old!r}, which a value replaces")
        text = text.replace(old, new)
    return _under(source, name, text)


def _under(source: Source, name: str, text: str) -> str:
    header = _HEADER.format(source=f"{source.folder}/{name}")
    conditions = [each for each in (source.condition, source.conditions.get(name)) if each]
    if not conditions:
        return header + text
    both = " ".join(conditions) if len(conditions) == 1 else f"and {' '.join(conditions)}"
    return f"{header}{{{{- if {both} }}}}\n{text}{{{{- end }}}}\n"


def _labelled(source: Source, document: str) -> str:
    """Add the namespace, the labels and annotations for Helm to the metadata of a manifest."""
    kind = re.search(r"^kind: (\w+)$", document, re.MULTILINE)
    name = re.search(r"^metadata:\n  name: \S+\n", document, re.MULTILINE)
    if kind is None or name is None:
        raise ValueError(f"expected a manifest whose metadata begin with its name:\n{document}")
    before, after = document[: name.end()], document[name.end() :]
    if kind[1] not in OF_THE_CLUSTER:
        before += f"  namespace: {source.namespace}\n"
    if kind[1] == _CRD:
        before += f"  {{{{- if .Values.crds.keep }}}}\n{_KEEP}  {{{{- end }}}}\n"
    labels = "  labels:\n"
    return f"{before}{labels}{_labels(source.labels)}{after.removeprefix(labels)}"


def _labels(value: str) -> str:
    """Return the lines with the labels of an object, also those of a value, if one is named."""
    return _LABELS_WITH.format(value=value) if value else _LABELS


def config_map(source: Source, generator: Mapping[str, Any]) -> str:
    """Return the template of a ConfigMap that kustomize generates from files, which the chart also has."""
    name, files = generator["name"], generator["files"]
    labels = source.config_labels.get(name, "")
    if generator.get("options") and not labels:
        raise ValueError(f"{source.folder}: expected a value for the labels of {name}")
    value = source.config_annotations.get(name)
    annotations = _ANNOTATIONS.format(value=value) if value else ""
    data = "".join(f'  {{{{- (.Files.Glob "files/{file}").AsConfig | nindent 2 }}}}\n' for file in files)
    text = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {source.namespace}\n"
        f"  labels:\n{_labels(labels or source.labels)}{annotations}data:\n{data}"
    )
    return _under(source, "kustomization.yaml", text)


def written(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield every file of the chart that is a copy, by its path in the chart, with its text."""
    for source in SOURCES:
        folder = root / source.folder
        templates = Path("templates") / folder.name
        kustomization = yaml.safe_load((folder / source.kustomization).read_text())
        for name in kustomization["resources"]:
            # Other kustomizations are sources of their own.
            if not name.endswith(".yaml") or name in source.by_hand:
                continue
            yield templates / name, template(source, name, (folder / name).read_text())
        for generator in kustomization.get("configMapGenerator", ()):
            yield templates / f"{generator['name']}.yaml", config_map(source, generator)
            for file in generator["files"]:
                yield Path("files") / file, (folder / file).read_text()


def main() -> None:
    """Write the copies into a chart in place of its existing copies, and its README."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the chart")
    chart: Path = parser.parse_args().folder
    for stale in ("files", *(f"templates/{Path(source.folder).name}" for source in SOURCES)):
        shutil.rmtree(chart / stale, ignore_errors=True)
    for path, text in written(MANIFESTS.parent):
        (chart / path).parent.mkdir(parents=True, exist_ok=True)
        (chart / path).write_text(text)
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "README.md").write_text(readme(about, (chart / "values.yaml").read_text()))


if __name__ == "__main__":
    main()
