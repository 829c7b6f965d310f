from pathlib import Path
from typing import Any

import pytest

from builders import reservation_json
from tidelock.cli.documents import Document, read_documents
from tidelock.cli.failure import Failure
from tidelock.cli.lint import LintFinding, is_foreign, problems_of, report
from unit.cli.screens import assert_screen

SAMPLES = Path(__file__).parents[3] / "manifests" / "samples"
HEAD = {"apiVersion": "tidelock.dev/v1alpha1", "kind": "Reservation"}


def lock(**spec: Any) -> Document:
    return Document("file: document 1", HEAD | reservation_json(**spec))


def level(**spec: Any) -> Document:
    body = HEAD | {
        "kind": "WaterLevel",
        "metadata": {"name": "all"},
        "spec": {"source": {"metricsServer": {}}, **spec},
    }
    return Document("file: document 1", body)


@pytest.mark.parametrize("file", sorted(SAMPLES.glob("*.yaml")), ids=lambda file: file.name)
def test_the_samples_are_valid(file: Path) -> None:
    found = [problems_of(each) for each in read_documents(str(file))]
    if file.name == "pod.yaml":
        assert "should be tidelock.dev/v1alpha1 Reservation or" in found[0][0]
    else:
        assert found == [()] * len(found)


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (lock(ttlSeconds=0), "spec.ttlSeconds: Invalid value: 0: should be greater than or equal to 1"),
        (lock(ttlSeconds="600"), 'spec.ttlSeconds: Invalid value: "600": should be a valid integer'),
        (lock(ttl=5), 'unknown field "spec.ttl"'),
        (
            Document("file", lock().body | {"spec": lock().body["spec"] | {"owner": []}}),
            'unknown field "spec.owner", did you mean "owners"?',
        ),
        (
            lock(owners=[{"pods": {"name": "web"}}]),
            'unknown field "spec.owners[0].pods", did you mean "pod"?',
        ),
        (lock(lease={"durationSecnds": 60}), 'unknown field "spec.lease.durationSecnds", did you mean'),
        (
            lock(commit={}, preemptionPolicy="PreemptLowerPriority"),
            "spec.preemptionPolicy: commit is refused beside preemptionPolicy PreemptLowerPriority",
        ),
        (
            lock(commit={}, mayMove={"automatically": True}),
            "spec.mayMove: commit is refused beside mayMove.automatically",
        ),
        (lock(node_name="a"), 'unknown field "spec.node_name", did you mean "nodeName"?'),
        (
            lock(owners=[{"pod": {"name": "Web"}}]),
            'spec.owners[0].pod.name: Invalid value: "Web": String should match pattern',
        ),
        (lock(owners=None), "spec.owners: Required value"),
        (lock(resources={"cpu": "many"}), 'spec.resources: Invalid value: {"cpu": "many"}: cpu: '),
        (lock(expireAt="soon"), 'spec.expireAt: Invalid value: "soon": should be a date-time such as '),
        (
            level(refreshSeconds=1),
            "spec.refreshSeconds: Invalid value: 1: should be greater",
        ),
        (level(target={"mode": "Wild"}), "spec.target.mode: Invalid value: \"Wild\": should be 'Static' or"),
        (Document("file", HEAD | {"metadata": {"name": "a"}}), "spec: Required value"),
        (
            Document("file", HEAD | {"metadata": {"name": "a"}, "spec": 3}),
            "spec: Invalid value: 3: should be an object",
        ),
        (Document("file", HEAD | {"spec": lock().body["spec"]}), "metadata.name: Required value"),
        (Document("file", lock().body | {"sepc": {}}), 'unknown field "sepc", did you mean "spec"?'),
    ],
)
def test_a_problem_names_field_value_and_expectation(document: Document, told: str) -> None:
    problems = problems_of(document)
    assert any(problem.startswith(told) for problem in problems), problems


def test_the_report_lists_problems_by_document() -> None:
    findings = [
        LintFinding("file.yaml: document 1 (Reservation/web-0)", ()),
        LintFinding(
            "file.yaml: document 2 (Reservation/web-1)", problems_of(lock(ttlSeconds=0, priority="high"))
        ),
    ]
    assert_screen("lint", report(findings, offline=False))
    assert report(findings[:1], offline=True) == [
        "file.yaml: document 1 (Reservation/web-0): ok, rules between fields not checked"
    ]


@pytest.mark.parametrize(
    ("body", "foreign"),
    [
        ({"apiVersion": "v1", "kind": "Service"}, True),
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, True),
        ({"apiVersion": "tidelock.dev/v1alpha1", "kind": "Reservations"}, False),
        ({"apiVersion": "tidelock.dev/v2", "kind": "Reservation"}, False),
        ({"kind": "Reservation"}, False),
    ],
)
def test_objects_of_other_apis_are_foreign(body: dict[str, Any], foreign: bool) -> None:
    assert is_foreign(Document("file", body)) == foreign


def test_the_report_names_skipped_documents() -> None:
    finding = LintFinding("file.yaml: document 1 (Service/web)", (), foreign=True)
    assert report([finding], offline=False) == [
        "file.yaml: document 1 (Service/web): skipped, it is not of tidelock.dev/v1alpha1"
    ]


def test_several_documents_and_lists_are_read(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(
        "---\n---\n{kind: A, metadata: {name: a}}\n---\nkind: List\nitems: [{kind: B}, {kind: C}]\n"
    )
    assert [each.place for each in read_documents(str(file))] == [
        f"{file}: document 1 (A/a)",
        f"{file}: document 2 (B)",
        f"{file}: document 3 (C)",
    ]


def test_a_time_without_quotes_is_read_as_text_as_by_kubectl(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text("at: 2026-12-01T00:00:00Z\nday: 2026-12-01")
    assert read_documents(str(file))[0].body == {"at": "2026-12-01T00:00:00Z", "day": "2026-12-01"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "No such file or directory"),
        (b"", "it is empty; add a Reservation"),
        (b"just a text", "document 1: should be an object with apiVersion"),
        (b"a: [", "is not YAML: "),
        (b"a: 1\na: 2", "is not YAML: key 'a' is given twice"),
        (b"\xff\xfe\xfd", "is not UTF-8: "),
    ],
)
def test_an_unusable_file_is_an_error_that_names_it(tmp_path: Path, content: bytes | None, told: str) -> None:
    file = tmp_path / "file.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(Failure, match=told) as failed:
        read_documents(str(file))
    assert str(failed.value).startswith(str(file))
    assert "\n" not in str(failed.value)
