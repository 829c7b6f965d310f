"""Tests with servers are slow, so each of their files says which behaviour of a server it needs."""

import ast
import re

from documents import ROOT


def test_each_file_of_cluster_tests_names_the_behaviour_that_it_needs() -> None:
    """A test that needs none belongs in a faster place (tests/README.md)."""
    silent = [
        path.name
        for path in sorted((ROOT / "tests/cluster").glob("test_*.py"))
        if not re.search(r"It needs .*API server", ast.get_docstring(ast.parse(path.read_text())) or "")
    ]
    assert not silent
