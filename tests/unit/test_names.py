"""One public name stands for one idea in the core."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

OPERATOR = Path(__file__).parents[2] / "operator" / "tidelock"
CORE = ("model", "cluster", "ledger", "framework", "plugins", "scheduler")
# Wire types have the names of the API's fields, and the decoded form of a field has its name, too.
LEFT_OUT = OPERATOR / "model" / "api"
# Each module has its own logger.
PER_MODULE = frozenset({"logger"})


def public_names(path: Path) -> Iterator[str]:
    """Yield the public names that a module defines, without type variables, which have one letter."""
    for node in ast.parse(path.read_text()).body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names = [name]
            case ast.Assign(targets=targets):
                names = [each.id for each in targets if isinstance(each, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_") and len(name) > 1)


def defined_twice(folder: Path) -> dict[str, list[str]]:
    """Return the modules of each public name that more than one of them defines."""
    modules = defaultdict(list)
    for part in CORE:
        for path in sorted((folder / part).rglob("*.py")):
            if LEFT_OUT not in path.parents:
                for name in public_names(path):
                    modules[name].append(str(path.relative_to(folder)))
    return {name: paths for name, paths in modules.items() if len(set(paths)) > 1 and name not in PER_MODULE}


def test_no_public_name_is_defined_in_two_modules() -> None:
    assert sum(len(list(public_names(path))) for path in OPERATOR.rglob("*.py")) > 1000
    assert defined_twice(OPERATOR) == {}


def test_a_name_in_two_modules_is_found(tmp_path: Path) -> None:
    for part, name in (("model", "pods"), ("ledger", "claims")):
        (tmp_path / part).mkdir()
        (tmp_path / part / f"{name}.py").write_text("class Claim: ...\n\nT = 1\n_CLAIM = 2\n")
    assert defined_twice(tmp_path) == {"Claim": ["model/pods.py", "ledger/claims.py"]}
