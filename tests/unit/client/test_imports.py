"""Client and operator work in an interpreter that has only the packages of their installation."""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from plugin.__main__ import packages
from unit.kube.kubeconfigs import write_kubeconfig

_LOGIN = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "log-in"}}


@cache
def absent(*extras: str) -> frozenset[str]:
    """Return the modules of installed packages that Tidelock does not need with some of its extras."""
    needed = {canonicalize_name(each.name) for each in packages(*extras)} | {"tidelock"}
    return frozenset(
        module
        for module, owners in packages_distributions().items()
        if needed.isdisjoint(map(canonicalize_name, owners))
    )


def run(program: str, *arguments: object, extras: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a program in a new interpreter, in which the import of any other package fails."""
    blocked = f"import sys; sys.modules |= dict.fromkeys({sorted(absent(*extras))})\n"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", blocked + program, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


def test_the_operator_has_packages_that_the_client_lacks() -> None:
    assert absent() >= {
        "cryptography",
        "grpclib",
        "kopf",
        "kubernetes",
        "numpy",
        "rich",
        "textual",
        "typer",
        "uvloop",
    }


def test_the_client_is_imported_without_the_packages_of_the_operator() -> None:
    done = run("import tidelock.client, tidelock.client.sync")
    assert (done.stderr, done.returncode) == ("", 0)


def test_the_client_reads_an_object_that_is_nested_too_deeply() -> None:
    program = """
from tidelock.client.informer import read_version
deep = b"[" * 5000 + b"]" * 5000
raw = b'{"metadata":{"name":"web-0","namespace":"shop"},"spec":%b,"status":{"phase":"Active"}}' % deep
print(read_version(raw).status)
"""
    done = run(program)
    assert (done.stdout, done.stderr) == ("{'phase': 'Active'}\n", "")


def test_a_login_by_a_program_names_the_extra_that_it_needs(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "kubeconfig", "https://localhost:1", _LOGIN)
    program = """
from tidelock.client import Cluster, Misconfigured
from tidelock.client.sync import blocking
try:
    with blocking(Cluster("east", kubeconfig=sys.argv[1])):
        pass
except Misconfigured as error:
    print(error)
"""
    done = run(program, path)
    assert (
        "its user logs in by a program, which needs the package kubernetes: pip install kubernetes"
        in done.stdout
    ), done.stderr


@pytest.mark.parametrize(("module", "extra"), [("tidelock.main", "operator"), ("tidelock.cli.main", "cli")])
def test_a_program_whose_packages_are_missing_names_its_extra(module: str, extra: str) -> None:
    done = run(f"from {module} import main; sys.exit(main())")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"error: only the client for managers is installed: in a checkout, pip install '.[{extra}]'"
    ]


def test_the_operator_is_imported_without_the_packages_of_the_command_line() -> None:
    program = """
import pkgutil, tidelock
apart = ("tidelock.cli", "tidelock.simulation.plots")
for module in pkgutil.walk_packages(tidelock.__path__, "tidelock.", onerror=print):
    if not module.name.startswith(apart):
        __import__(module.name)
assert "tidelock.leader" in sys.modules and "textual" in absent
"""
    done = run(f"absent = {sorted(absent('operator'))}\n{program}", extras=["operator"])
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
