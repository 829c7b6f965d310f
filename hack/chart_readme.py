"""The README of the Helm chart, made from the comments of its values.yaml.

The comment above a value describes it. A mapping is a group of values if any of these has a comment of its
own. Otherwise the mapping is one value.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

_HEAD = """\
<!-- Written by hack/update-chart from the comments of values.yaml; not to be edited by hand. -->
# {name}

{description}. Version {version}, for Kubernetes {kube_version}.

Install the chart once in a cluster, with the rights of a cluster admin:

```sh
helm install {name} manifests/chart --namespace {name}-system --create-namespace \\
  --set image.repository=REGISTRY/{name}
```

The names of objects are fixed, because the operator finds its objects by name. Only the namespace is that of
the release. [Installation](../../docs/installation.md) describes common choices, upgrades and the removal.

## Values

| value | description | default |
| --- | --- | --- |
"""
_PAGE = re.compile(r"\bdocs/[a-z-]+\.md")


class Value(NamedTuple):
    """A value of the chart that can be set.

    Attributes:
        path: its keys, joined by dots.
        description: the comment above it, in one line.
        default: its default as YAML in one line.

    """

    path: str
    description: str
    default: str


def readme(chart: dict[str, Any], text: str) -> str:
    """Return the README for the content of Chart.yaml and the text of values.yaml.

    Raises:
        ValueError: a value has no comment.

    """
    head = _HEAD.format(
        name=chart["name"],
        description=chart["description"],
        version=chart["version"],
        kube_version=chart["kubeVersion"].removeprefix(">=").removesuffix("-0") + " or later",
    )
    rows = (f"| `{each.path}` | {_linked(each.description)} | `{each.default}` |" for each in values(text))
    return head + "\n".join(rows) + "\n"


def _linked(description: str) -> str:
    return _PAGE.sub(r"[\g<0>](../../\g<0>)", description.replace("|", "\\|"))


def values(text: str) -> Iterator[Value]:
    """Yield all values of a values.yaml in their order, or raise ValueError for one without a comment."""
    root = yaml.compose(text)
    if isinstance(root, yaml.MappingNode):
        yield from _values(root, text.splitlines(), "")


def _values(group: yaml.MappingNode, lines: list[str], prefix: str) -> Iterator[Value]:
    for key, node in group.value:
        path = prefix + key.value
        comment = _comment(lines, key)
        if isinstance(node, yaml.MappingNode) and any(_comment(lines, each) for each, _ in node.value):
            yield from _values(node, lines, f"{path}.")
        elif comment:
            yield Value(path, comment, _default(node))
        else:
            raise ValueError(f"values.yaml: {path}: expected a comment above it")


def _comment(lines: list[str], key: yaml.Node) -> str:
    """Return the comment in the lines right above a key, at the same depth."""
    mark = f"{' ' * key.start_mark.column}# "
    found: list[str] = []
    for line in reversed(lines[: key.start_mark.line]):
        if not line.startswith(mark):
            break
        found.append(line.removeprefix(mark))
    return " ".join(reversed(found))


def _default(node: yaml.Node) -> str:
    value = yaml.safe_load(yaml.serialize(node))
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("...\n").strip().replace("''", '""')
