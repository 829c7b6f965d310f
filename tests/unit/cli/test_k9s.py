"""docs/examples/k9s: the CRDs and commands that its files name exist.

The keys of both files are the keys of k9s' JSON schemas for views and plugins.
"""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from tidelock.cli.app import make_app

ROOT = Path(__file__).parents[3]
FILES = ROOT / "docs" / "examples" / "k9s"
CRDS: dict[str, Any] = {
    plain["spec"]["names"]["plural"]: plain["spec"]
    for plain in (yaml.safe_load(file.read_text()) for file in (ROOT / "crds").glob("*.yaml"))
    if plain["kind"] == "CustomResourceDefinition"
}
VIEWS: dict[str, Any] = yaml.safe_load((FILES / "views.yaml").read_text())
PLUGINS: dict[str, Any] = yaml.safe_load((FILES / "plugins.yaml").read_text())

# The values that k9s substitutes for these variables.
GIVEN = {
    "KUBECONFIG": "/home/me/.kube/config",
    "CONTEXT": "kind",
    "NAMESPACE": "shop",
    "RESOURCE_NAME": "reservations",
    "NAME": "web-0",
}
TAKEN = {"Shift-A", "Shift-F", "Shift-J", "Shift-N", "Shift-O", "Shift-P", "Shift-S", "Shift-V"}
"""Keys that k9s itself uses in the views of the scopes."""


def test_there_is_a_view_of_each_resource() -> None:
    assert set(VIEWS) == {"views"}
    assert set(VIEWS["views"]) == {f"tidelock.dev/v1alpha1/{plural}" for plural in CRDS}


@pytest.mark.parametrize("plural", CRDS)
def test_columns_are_printer_columns_of_the_crds(plural: str) -> None:
    (version,) = CRDS[plural]["versions"]
    printed = {column["name"].upper() for column in version["additionalPrinterColumns"]} | {"NAME"}
    view = VIEWS["views"][f"tidelock.dev/v1alpha1/{plural}"]
    assert set(view) <= {"columns", "sortColumn"}
    own = [column for column in view["columns"] if ":" in column]
    assert own == (["NAMESPACE:.metadata.namespace"] if CRDS[plural]["scope"] == "Namespaced" else [])
    named = [column for column in view["columns"] if ":" not in column]
    assert set(named) <= printed
    assert len(set(named)) == len(named)
    if "sortColumn" in view:
        column, _, direction = view["sortColumn"].partition(":")
        assert column in named
        assert direction in ("asc", "desc")


@pytest.mark.parametrize("name", PLUGINS["plugins"])
def test_plugin_commands_are_valid_tidelock_commands(name: str) -> None:
    plugin = PLUGINS["plugins"][name]
    assert set(PLUGINS) == {"plugins"}
    assert set(plugin) == {"shortCut", "description", "scopes", "command", "args"}
    assert set(plugin["scopes"]) <= {*CRDS, "pods", "nodes"}
    assert plugin["command"] == "sh"
    option, script = plugin["args"]
    assert option == "-c"

    given = re.sub(r"\$(\w+)", lambda match: GIVEN[match[1]], script)
    words = shlex.split(given.partition(" 2>&1 | ")[0])
    assert words[:3] == [f"KUBECONFIG={GIVEN['KUBECONFIG']}", "kubectl", "tidelock"]
    group = typer.main.get_command(make_app())
    with group.make_context("kubectl-tidelock", words[3:]) as context:
        command_name, command, arguments = group.resolve_command(context, words[3:])  # type: ignore[attr-defined]
        assert command_name == words[3]
        command.make_context(command_name, arguments, parent=context).close()


def test_shortcuts_are_unique_and_unused_by_k9s() -> None:
    keys = [plugin["shortCut"] for plugin in PLUGINS["plugins"].values()]
    assert all(re.fullmatch(r"Shift-[A-Z]", key) for key in keys)
    assert len(set(keys)) == len(keys)
    assert not TAKEN & set(keys)
