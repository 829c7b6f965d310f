"""Writes the templates of the Helm chart that are copies of manifests: python -m write_chart FOLDER.

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

MANIFESTS = Path(__file__).parents[1] / "manifests"
NAMESPACE = "tidelock-system"
_RELEASE_NAMESPACE = "{{ .Release.Namespace }}"
_LABELS = '    {{- include "tidelock.labels" . | nindent 4 }}\n'
_MONITORING_LABELS = """\
    {{- with .Values.monitoring.labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
"""
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
        labels: the template lines with the labels of an object.
        by_hand: files without a copy, because the chart has its own template for them, or none.
        edits: by file, texts that values replace wherever they occur.
        conditions: by file, a condition in addition to the folder's.

    """

    folder: str
    condition: str = ""
    labels: str = _LABELS
    kustomization: str = "kustomization.yaml"
    by_hand: frozenset[str] = frozenset()
    edits: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)


# Texts that values replace, each with its replacement.
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
SOURCES = (
    Source("crds", ".Values.crds.enabled", kustomization="Kustomization"),
    Source(
        "manifests/base",
        by_hand=frozenset({"namespace.yaml", "deployment.yaml", "resource-quota.yaml"}),
        conditions={"network-policies.yaml": ".Values.networkPolicy.enabled"},
        edits={"network-policies.yaml": [_EGRESS]},
    ),
    Source(
        "manifests/components/extender",
        ".Values.extender.enabled",
        conditions={"network-policy.yaml": ".Values.networkPolicy.enabled"},
        edits={"webhooks.yaml": [_FAILURE_POLICY]},
    ),
    Source("manifests/components/autoscalers", ".Values.autoscalers.enabled"),
    Source(
        "manifests/monitoring",
        ".Values.monitoring.enabled",
        labels=f"{_LABELS}{_MONITORING_LABELS}",
        edits={"service-monitor.yaml": [_SCRAPES]},
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
        before += f"  namespace: {_RELEASE_NAMESPACE}\n"
    if kind[1] == _CRD:
        before += f"  {{{{- if .Values.crds.keep }}}}\n{_KEEP}  {{{{- end }}}}\n"
    labels = "  labels:\n"
    return f"{before}{labels}{source.labels}{after.removeprefix(labels)}"


def config_map(source: Source, generator: Mapping[str, Any]) -> str:
    """Return the template of a ConfigMap that kustomize generates from files, which the chart also has."""
    name, files = generator["name"], generator["files"]
    labels = yaml.safe_dump(generator.get("options", {}).get("labels", {}), default_flow_style=False)
    own = "".join(f"    {line}\n" for line in labels.splitlines() if line != "{}")
    data = "".join(f'  {{{{- (.Files.Glob "files/{file}").AsConfig | nindent 2 }}}}\n' for file in files)
    text = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {_RELEASE_NAMESPACE}\n"
        f"  labels:\n{source.labels}{own}data:\n{data}"
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
    """Write the copies into a chart, and replace its existing copies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="of the chart")
    chart: Path = parser.parse_args().folder
    for stale in ("files", *(f"templates/{Path(source.folder).name}" for source in SOURCES)):
        shutil.rmtree(chart / stale, ignore_errors=True)
    for path, text in written(MANIFESTS.parent):
        (chart / path).parent.mkdir(parents=True, exist_ok=True)
        (chart / path).write_text(text)


if __name__ == "__main__":
    main()
