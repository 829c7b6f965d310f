"""Writes the templates of the Helm chart that are copies of manifests: python -m write_chart FOLDER.

A manifest is copied as text, so that its comments and its layout stay. It is given the release's namespace
and labels, and the condition under which the chart has it. What values change more deeply is written by hand,
beside the folders that this fills. tests/installation holds the chart to what kustomize makes of manifests.
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
_OF_THE_CLUSTER = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "CustomResourceDefinition",
        "FlowSchema",
        "PriorityLevelConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    }
)
_CRD = "CustomResourceDefinition"
# Helm leaves these alone when the release is removed, or with it all Reservations were gone.
_KEEP = "  annotations:\n    helm.sh/resource-policy: keep\n"
_HEADER = "{{{{- /* Written by hack/update-chart from {source}; not to be edited by hand. */}}}}\n"


@dataclass(frozen=True)
class Source:
    """A folder of manifests with a kustomization, and what becomes of it in the chart.

    Attributes:
        folder: its path below the repository, whose last part names the folder of templates.
        condition: when the chart has these objects; empty: always.
        labels: the lines that give an object its labels.
        by_hand: files that have no copy, as the chart has a template of its own, or nothing.
        edits: by file, texts that values replace, as often as they occur.
        conditions: by file, a condition beside the folder's.

    """

    folder: str
    condition: str = ""
    labels: str = _LABELS
    kustomization: str = "kustomization.yaml"
    by_hand: frozenset[str] = frozenset()
    edits: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    conditions: Mapping[str, str] = field(default_factory=dict)


# What values replace, and by what.
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
    Source(
        "manifests/monitoring",
        ".Values.monitoring.enabled",
        labels=f"{_LABELS}{_MONITORING_LABELS}",
        edits={"service-monitor.yaml": [_SCRAPES]},
    ),
)


def template(source: Source, name: str, text: str) -> str:
    """Make the template of one manifest.

    Raises:
        ValueError: a text that a value is to replace is not in it.

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
    """Add namespace, labels and what Helm is to know to the metadata of a manifest."""
    kind = re.search(r"^kind: (\w+)$", document, re.MULTILINE)
    name = re.search(r"^metadata:\n  name: \S+\n", document, re.MULTILINE)
    if kind is None or name is None:
        raise ValueError(f"expected a manifest whose metadata begin with its name:\n{document}")
    before, after = document[: name.end()], document[name.end() :]
    if kind[1] not in _OF_THE_CLUSTER:
        before += f"  namespace: {_RELEASE_NAMESPACE}\n"
    if kind[1] == _CRD:
        before += f"  {{{{- if .Values.crds.keep }}}}\n{_KEEP}  {{{{- end }}}}\n"
    labels = "  labels:\n"
    return f"{before}{labels}{source.labels}{after.removeprefix(labels)}"


def config_map(source: Source, generator: Mapping[str, Any]) -> str:
    """Make the template of a ConfigMap that kustomize generates from files, which the chart has copies of."""
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
    """Give every file of the chart that is a copy: its path in the chart, and its text."""
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
    """Write the copies into a chart, in the place of those that are there."""
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
