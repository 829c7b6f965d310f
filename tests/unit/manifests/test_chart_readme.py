"""The README of the chart, which is made from the comments of values.yaml."""

import pytest
import yaml

from chart_readme import Value, readme, values
from write_chart import MANIFESTS

CHART = MANIFESTS / "chart"


def test_a_comment_describes_the_value_below_it() -> None:
    text = '# Of all values.\n\n# Number of\n# replicas.\nreplicas: 1\n# Empty: none.\nname: ""\n'
    assert list(values(text)) == [
        Value("replicas", "Number of replicas.", "1"),
        Value("name", "Empty: none.", '""'),
    ]


def test_values_in_a_group_have_its_name() -> None:
    text = "image:\n  # Its tag.\n  tag: a\n  # Its login.\n  login: {name: b}\n"
    assert list(values(text)) == [
        Value("image.tag", "Its tag.", "a"),
        Value("image.login", "Its login.", "{name: b}"),
    ]


def test_a_mapping_without_comments_inside_is_one_value() -> None:
    (only,) = values("# Of the container.\nrequests:\n  cpu: 1\n  memory: 2Gi\n")
    assert only == Value("requests", "Of the container.", "{cpu: 1, memory: 2Gi}")


@pytest.mark.parametrize(
    "text", ["a: 1\n", "# A group.\na:\n  # Known.\n  b: 1\n  c: 1\n", "# Far away.\n\na: 1\n"]
)
def test_a_value_without_a_comment_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"values\.yaml: a(\.c)?: expected a comment"):
        list(values(text))


def test_pages_are_links_and_bars_do_not_end_a_cell() -> None:
    about = {"name": "a", "description": "b", "version": "1", "kubeVersion": ">=1.34.0-0"}
    page = readme(about, "# One | other: docs/web-view.md.\na: 1\n")
    assert "| `a` | One \\| other: [docs/web-view.md](../../docs/web-view.md). | `1` |\n" in page
    assert "for Kubernetes 1.34.0 or later" in page


def test_the_readme_has_every_value_of_the_chart() -> None:
    text = (CHART / "values.yaml").read_text()
    top = {each.path.partition(".")[0] for each in values(text)}
    assert top == yaml.safe_load(text).keys()
    lines = (CHART / "README.md").read_text().splitlines()
    assert all(any(line.startswith(f"| `{each.path}` |") for line in lines) for each in values(text))
