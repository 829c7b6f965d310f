"""Mutation operators: the small faults that can be planted in a module, found by its syntax tree."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_ARITHMETIC = {ast.Add: "-", ast.Sub: "+"}
_CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
# Faults of log lines and of texts for debuggers are not worth a test.
_UNOBSERVED = frozenset({"logger", "__repr__", "__str__"})


@dataclass(frozen=True, slots=True)
class Mutation:
    """A replacement in a module's source.

    Attributes:
        line: the first line, from 1.
        start: index of the first replaced byte.
        end: index after the last one.
        text: the replacement.
        what: the kind of fault.

    """

    line: int
    start: int
    end: int
    text: str
    what: str

    def apply(self, source: bytes) -> bytes:
        """Return the source with the fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutations(source: bytes) -> list[Mutation]:
    """Return all faults that can be planted in a module, in the order of its lines."""
    found = _Finder(source)
    found.visit(ast.parse(source))
    return sorted(found.mutations, key=lambda each: (each.start, each.end, each.text))


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self.mutations: list[Mutation] = []
        self._source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Look into the body alone: annotations and decorators are left out."""
        if node.name not in _UNOBSERVED:
            for default in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
                self.visit(default)
            self._visit_body(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 -- the name of NodeVisitor

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Leave protocols out, as they have no code."""
        if not any(isinstance(base, ast.Name) and base.id == "Protocol" for base in node.bases):
            self._visit_body(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Look at the value alone."""
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        """Negate the condition."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Negate the condition."""
        self._negate(node.test)
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave the texts of exceptions alone."""

    def visit_Compare(self, node: ast.Compare) -> None:
        """Replace each operator by its neighbour."""
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            start, end = self._end(left), self._start(right)
            gap = self._source[start:end]
            symbol = ast.unparse(ast.Compare(ast.Name("a"), [operator], [ast.Name("b")]))[2:-2]
            if gap.strip() == symbol.encode():
                text = gap.replace(symbol.encode(), _COMPARISONS[type(operator)].encode()).decode()
                self._add(node, start, end, text, "comparison")
            left = right
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Replace `and` by `or`, and the reverse."""
        symbol, other = (b"and", "or") if isinstance(node.op, ast.And) else (b"or", "and")
        start, end = self._end(node.values[0]), self._start(node.values[1])
        gap = self._source[start:end]
        if gap.count(symbol) == 1:
            self._add(node, start, end, gap.replace(symbol, other.encode()).decode(), "and/or")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Drop a `not`."""
        if isinstance(node.op, ast.Not):
            text = f"({ast.unparse(node.operand)})"
            self._add(node, self._start(node), self._end(node), text, "dropped not")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Replace a sum by a difference, and the reverse."""
        start, end = self._end(node.left), self._start(node.right)
        gap = self._source[start:end]
        if (symbol := _ARITHMETIC.get(type(node.op))) and gap.strip() in (b"+", b"-"):
            self._add(node, start, end, gap.replace(gap.strip(), symbol.encode()).decode(), "arithmetic")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Swap truth values, and add 1 to numbers."""
        if isinstance(node.value, bool):
            self._add(node, self._start(node), self._end(node), str(not node.value), "truth value")
        elif isinstance(node.value, int | float):
            self._add(node, self._start(node), self._end(node), repr(node.value + 1), "number")

    def visit_Call(self, node: ast.Call) -> None:
        """Swap `min` and `max`, `any` and `all`."""
        if isinstance(node.func, ast.Name) and node.func.id in _CALLS:
            self._add(
                node, self._start(node.func), self._end(node.func), _CALLS[node.func.id], "another function"
            )
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        """Drop a call whose result is not used."""
        call = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(call, ast.Constant):
            return
        if isinstance(call, ast.Call):
            if _root(call.func) in _UNOBSERVED:
                return
            self._drop(node, "dropped call")
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Drop a change of an object."""
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._drop(node, "dropped assignment")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Drop a change of an object or a variable."""
        self._drop(node, "dropped assignment")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        """Go on with the rest of the loop's body."""
        self._drop(node, "dropped continue")

    def visit_Break(self, node: ast.Break) -> None:
        """Go on with the loop."""
        self._drop(node, "dropped break")

    def visit_Return(self, node: ast.Return) -> None:
        """Return nothing, or go on instead of an early return."""
        if node.value is None:
            self._drop(node, "dropped return")
        elif isinstance(node.value, ast.Constant) and not node.value.value:
            self.generic_visit(node)  # for callers that ask for its truth, None would be the same
        else:
            self._add(node, self._start(node), self._end(node), "return None", "returned nothing")
            self.generic_visit(node)

    def _visit_body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def _negate(self, test: ast.expr) -> None:
        text = f"(not ({ast.unparse(test)}))"
        if not isinstance(test, ast.NamedExpr):
            self._add(test, self._start(test), self._end(test), text, "negated condition")

    def _drop(self, node: ast.stmt, what: str) -> None:
        self._add(node, self._start(node), self._end(node), "pass", what)

    def _add(self, node: ast.stmt | ast.expr, start: int, end: int, text: str, what: str) -> None:
        self.mutations.append(Mutation(node.lineno, start, end, text, what))

    def _start(self, node: ast.stmt | ast.expr) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.stmt | ast.expr) -> int:
        line, column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._starts[line - 1] + column


def _root(function: ast.expr) -> str:
    """Return the first name of a dotted function."""
    while isinstance(function, ast.Attribute):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def changed_lines(source: bytes, mutation: Mutation) -> Iterator[str]:
    """Yield the lines before and after a fault, as a diff does."""
    before, after = source.splitlines(), mutation.apply(source).splitlines()
    same_start = next(
        (number for number, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), 0
    )
    same_end = next(
        (
            number
            for number, pair in enumerate(zip(reversed(before), reversed(after), strict=False))
            if pair[0] != pair[1]
        ),
        0,
    )
    yield from (f"- {line.decode().strip()}" for line in before[same_start : len(before) - same_end])
    yield from (f"+ {line.decode().strip()}" for line in after[same_start : len(after) - same_end])
