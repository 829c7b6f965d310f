"""The templates of the chart, which are generated from manifests."""

import pytest

from write_chart import MANIFESTS, SOURCES, Source, template, written

SERVICE = """\
# Where it is.
apiVersion: v1
kind: Service
metadata:
  name: tidelock
  labels:
    a: b
spec: {externalName: tidelock-system.example.org}
"""
COPY = """\
# Where it is.
apiVersion: v1
kind: Service
metadata:
  name: tidelock
  namespace: {{ .Release.Namespace }}
  labels:
    {{- include "tidelock.labels" . | nindent 4 }}
    a: b
spec: {externalName: {{ .Release.Namespace }}.example.org}
"""


def body(source: Source, text: str) -> str:
    """Return a template without its first line."""
    header, _, rest = template(source, "a.yaml", text).partition("\n")
    assert "not to be edited by hand" in header
    return rest


def test_comments_and_layout_stay() -> None:
    assert body(Source("folder"), SERVICE) == COPY


def test_cluster_scoped_objects_have_no_namespace() -> None:
    assert "\n  namespace:" not in body(Source("folder"), "kind: ClusterRole\nmetadata:\n  name: a\n")


def test_each_of_several_manifests_is_labelled() -> None:
    assert body(Source("folder"), f"{SERVICE}---\n{SERVICE}") == f"{COPY}---\n{COPY}"


def test_conditions_of_folder_and_file_both_count() -> None:
    source = Source("folder", ".Values.a", conditions={"a.yaml": ".Values.b"})
    assert body(source, SERVICE) == f"{{{{- if and .Values.a .Values.b }}}}\n{COPY}{{{{- end }}}}\n"


def test_braces_of_other_templates_are_escaped() -> None:
    text = "kind: Service\nmetadata:\n  name: a\nspec: {externalName: '{{ $labels.a }}'}\n"
    assert "'{{ `{{` }} $labels.a }}'" in body(Source("folder"), text)


def test_a_value_replaces_a_text_that_must_exist() -> None:
    source = Source("folder", edits={"a.yaml": [("    a: b\n", "    a: {{ .Values.a }}\n")]})
    assert "    a: {{ .Values.a }}\n" in body(source, SERVICE)
    with pytest.raises(ValueError, match=r"folder/a\.yaml: expected '    a: b\\n'"):
        template(source, "a.yaml", SERVICE.replace("a: b", "a: c"))


def test_a_manifest_with_another_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="begin with its name"):
        template(Source("folder"), "a.yaml", "kind: Service\nmetadata: {name: a}\n")


def test_no_file_is_written_twice() -> None:
    paths = [path for path, _ in written(MANIFESTS.parent)]
    assert len(set(paths)) == len(paths) > len(SOURCES)
