"""Parses an expression by precedence climbing, and expands its macros."""

from tidelock.cel.errors import ExpressionError
from tidelock.cel.lexer import Tokens, integer
from tidelock.cel.syntax import (
    MAX_DEPTH,
    Call,
    Comprehension,
    Identifier,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)

# Binary operators by how tightly they bind. Those of one level associate to the left.
_PRECEDENCE = {
    "?": 1,
    "||": 2,
    "&&": 3,
    **dict.fromkeys(("<", "<=", ">=", ">", "==", "!=", "in"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "%"), 6),
}
_RESERVED = frozenset(
    {"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"}
)
_RESERVED |= {"package", "namespace", "return", "var", "void", "while"}
# Macros by name and number of arguments: the number of their variables, and whether a condition follows.
_MACROS = {
    ("all", 2): (1, False),
    ("all", 3): (2, False),
    ("exists", 2): (1, False),
    ("exists", 3): (2, False),
    ("exists_one", 2): (1, False),
    ("exists_one", 3): (2, False),
    ("existsOne", 3): (2, False),
    ("filter", 2): (1, False),
    ("map", 2): (1, False),
    ("map", 3): (1, True),
    ("transformList", 3): (2, False),
    ("transformList", 4): (2, True),
    ("transformMap", 3): (2, False),
    ("transformMap", 4): (2, True),
    ("transformMapEntry", 3): (2, False),
    ("transformMapEntry", 4): (2, True),
    ("sortBy", 2): (1, False),
    ("optMap", 2): (1, False),
    ("optFlatMap", 2): (1, False),
}
_SAME_MACRO = {"existsOne": "exists_one", "transformList": "map"}


def parse(text: str) -> Node:
    """Return the syntax tree of an expression. Raises ExpressionError."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        tokens = Tokens(text)
        self._kinds, self._texts, self._positions = tokens.kinds, tokens.texts, tokens.positions
        self._values = tokens.values
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._expression()
        if self._kind != "end":
            raise self._unexpected()
        return node

    @property
    def _kind(self) -> str:
        """The kind of the next token."""
        return self._kinds[self._next]

    @property
    def _position(self) -> int:
        """The position of the next token."""
        return self._positions[self._next]

    def _take(self) -> str:
        """Return the text of the next token, and go on."""
        self._next += 1
        return self._texts[self._next - 1]

    def _accept(self, operator: str) -> bool:
        if self._kinds[self._next] == operator:
            self._next += 1
            return True
        return False

    def _expect(self, operator: str) -> None:
        if not self._accept(operator):
            raise self._unexpected(f", expected {operator!r}")

    def _unexpected(self, hint: str = "") -> ExpressionError:
        found = repr(self._texts[self._next]) if self._kind != "end" else "the end"
        return ExpressionError(f"Syntax error at {self._position}: unexpected {found}{hint}")

    def _expression(self, lowest: int = 1) -> Node:
        """Parse operands joined by operators that bind at least as tightly as `lowest`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(f"more than {MAX_DEPTH} levels of nested expressions")
        left = self._operand()
        while True:
            operator, position = self._kinds[self._next], self._positions[self._next]
            level = _PRECEDENCE.get(operator, 0)
            if level < lowest:
                self._depth -= 1
                return left
            self._next += 1
            if operator == "?":
                middle = self._expression(2)
                self._expect(":")
                left = Call("?:", [left, middle, self._expression()], position=position)
            elif operator in {"&&", "||"}:
                left = self._logical(left, operator, level, position)
            else:
                left = Call(operator, [left, self._expression(level + 1)], position=position)

    def _logical(self, left: Node, operator: str, level: int, position: int) -> Node:
        """Parse a whole chain of `&&` or `||` into one call, so a long chain is not deep."""
        operands = [left, self._expression(level + 1)]
        while self._accept(operator):
            operands.append(self._expression(level + 1))
        return Call(operator, operands, position=position)

    def _operand(self) -> Node:
        """Parse a primary expression with the operators before it, and the selections after it."""
        sign, position, count = self._kinds[self._next], self._positions[self._next], 0
        while sign in {"!", "-"} and self._accept(sign):
            count += 1
        negative = False
        if sign == "-" and count % 2 and self._kind == "number":
            # The sign is part of the number, so the lowest int can be written. There is no negative uint.
            negative = self._texts[self._next][-1] not in "uU"
            count = int(not negative)
        node = self._primary(negative=negative)
        while self._kinds[self._next] in {".", "["}:
            node = self._selection(node)
        if count % 2:
            node = Call(f"{sign}_", [node], position=position)
        return node

    def _selection(self, operand: Node) -> Node:
        """Parse one `.name`, `.name(…)` or `[index]` after an operand."""
        position = self._position
        if self._accept("."):
            optional = self._accept("?")
            is_quoted = self._kind == "quoted"
            name = self._name(quoted=True)
            if not optional and not is_quoted and self._accept("("):
                return self._method(operand, name, self._elements(")")[0], position)
            return Select(operand, name, optional, position=position)
        self._expect("[")
        function = "[?]" if self._accept("?") else "[]"
        index = self._expression()
        self._expect("]")
        return Call(function, [operand, index], position=position)

    def _name(self, *, quoted: bool = False) -> str:
        if self._kind == "quoted" and quoted:
            return self._take()[1:-1]
        if self._kind != "name":
            raise self._unexpected(", expected a name")
        return self._take()

    def _primary(self, *, negative: bool) -> Node:
        index = self._next
        kind, position = self._kinds[index], self._positions[index]
        if kind == "number":
            return Literal(integer(self._take(), position, negative=negative), position=position)
        if kind == "literal":
            self._next += 1
            return Literal(self._values[index], position=position)
        if kind == "name" or self._accept("."):
            return self._named(position)
        if self._accept("["):
            elements, optional = self._elements("]", optionals=True)
            return ListLiteral(elements, optional, position=position)
        if self._accept("("):
            node = self._expression()
            self._expect(")")
            return node
        if self._accept("{"):
            return self._map(position)
        raise self._unexpected()

    def _named(self, position: int) -> Node:
        name = self._name()
        if self._accept("("):
            arguments, _ = self._elements(")")
            if name == "has" and len(arguments) == 1:
                return _presence_test(arguments[0], position)
            return Call(name, arguments, position=position)
        if name in _RESERVED:
            raise ExpressionError(f"Syntax error at {position}: reserved identifier: {name}")
        return Identifier(name, position=position)

    def _elements(self, end: str, *, optionals: bool = False) -> tuple[list[Node], frozenset[int]]:
        """Parse expressions between commas up to an end. A list may have a comma after its last one."""
        elements: list[Node] = []
        optional = set()
        while not self._accept(end):
            if elements:
                self._expect(",")
                if optionals and self._accept(end):
                    break
            if optionals and self._accept("?"):
                optional.add(len(elements))
            elements.append(self._expression())
        return elements, frozenset(optional)

    def _map(self, position: int) -> Node:
        keys: list[Node] = []
        values: list[Node] = []
        optional = set()
        while not self._accept("}"):
            if keys:
                self._expect(",")
                if self._accept("}"):
                    break
            if self._accept("?"):
                optional.add(len(keys))
            keys.append(self._expression())
            self._expect(":")
            values.append(self._expression())
        return MapLiteral(keys, values, frozenset(optional), position=position)

    def _method(self, target: Node, name: str, arguments: list[Node], position: int) -> Node:
        if name == "bind" and len(arguments) == 3 and isinstance(target, Identifier) and target.name == "cel":  # noqa: PLR2004
            variable = _variables(arguments[:1])
            return Comprehension("bind", arguments[1], variable, None, arguments[2], position=position)
        macro = _MACROS.get((name, len(arguments)))
        if macro is None:
            return Call(name, [target, *arguments], method=True, position=position)
        count, has_condition = macro
        condition = arguments[count] if has_condition else None
        return Comprehension(
            _SAME_MACRO.get(name, name),
            target,
            _variables(arguments[:count]),
            condition,
            arguments[-1],
            position=position,
        )


def _presence_test(argument: Node, position: int) -> Node:
    if not isinstance(argument, Select) or argument.test or argument.optional:
        raise ExpressionError(f"Syntax error at {position}: invalid argument to has() macro")
    return Select(argument.operand, argument.name, test=True, position=position)


def _variables(arguments: list[Node]) -> tuple[str, ...]:
    """Return the names of a macro's variables. Raises ExpressionError unless they are different names."""
    names = tuple(each.name for each in arguments if isinstance(each, Identifier))
    if len(set(names)) != len(arguments):
        position = arguments[-1].position
        raise ExpressionError(
            f"Syntax error at {position}: the variables of a macro must be different simple names"
        )
    return names
