# SPDX-License-Identifier: Apache-2.0
"""Field references to Python: finding an element, all elements, a value, or making what is missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from entrepot.esql.compiler.names import SHORTHANDS, CompilerSymbol
from entrepot.esql.compiler.source import Code
from entrepot.esql.compiler.unsupported import Unsupported
from entrepot.esql.syntax import Expression, KindName, Literal, Path, Step
from entrepot.models.element_types import NAMED, XML_URI, XMLNS_URI

if TYPE_CHECKING:
    from entrepot.esql.compiler.expressions import ExpressionCompiler
    from entrepot.esql.compiler.state import RoutineState

_REMEMBERED = {"walk": "find_from", "make": "make_from"}


def keys_literal(keys: list[str]) -> str:
    return "(" + ", ".join(repr(key) for key in keys) + ("," if len(keys) == 1 else "") + ")"


class PathCompiler:
    """Field references; expressions are asked for what stands in braces and brackets."""

    def __init__(self, state: RoutineState, expressions: ExpressionCompiler) -> None:
        self._expressions = expressions
        self._names = state.names
        self._trees = state.trees
        self._sites = state.sites

    # --- where a path begins --------------------------------------------------------------------

    def resolve(self, path: Path) -> tuple[CompilerSymbol, tuple[Step, ...]]:
        """The symbol of the first step, and the steps that are still to go."""
        head = path.steps[0]
        name = head.name
        if name is None:
            raise Unsupported(path, "a field reference begins with a name")
        symbol = self._symbol(name)
        if symbol is None:
            raise Unsupported(path, f"{name} is not declared")
        rest = path.steps[1:]
        # `ref[2]` and the like: an index on the variable itself has no meaning but `x[]` in a FROM.
        if head.index is not None and (head.index.form != "all" or rest):
            raise Unsupported(path, f"an index on {name} itself")
        self._trees.note_use(symbol.python)
        return symbol, rest

    def _symbol(self, name: str) -> CompilerSymbol | None:
        if self._names.find(name) is None:
            for tree in self._trees:
                # Trees are local names; the function takes from the run those that it uses.
                self._names.declare_outermost(tree, CompilerSymbol("tree", tree, local=False))
        symbol = self._names.find(name)
        if symbol is None and name in SHORTHANDS:
            base, part = SHORTHANDS[name]
            below = self._names.find(base)
            if below is not None:
                python = f"last_child({below.python})" if not part else f"walk({below.python}, ({part!r},))"
                symbol = CompilerSymbol("tree", python, local=False)
        return symbol

    def is_database(self, path: Path) -> bool:
        """Whether a path leads to a table."""
        head = path.steps[0].name
        symbol = self._names.find(head) if head else None
        return symbol is not None and symbol.kind == "database"

    def is_scalar(self, path: Path) -> CompilerSymbol | None:
        """The symbol of a path that is a plain variable or constant."""
        if len(path.steps) == 1 and path.steps[0].name is not None:
            symbol = self._names.find(path.steps[0].name)
            if symbol is not None and symbol.kind in ("scalar", "namespace"):
                return symbol
        return self._kind_as_value(path)

    def _kind_as_value(self, path: Path) -> CompilerSymbol | None:
        """XMLNSC.Attribute or NameValue where a value stands: the number of a type."""
        names = [step.name for step in path.steps]
        if len(names) > 2 or names[0] is None or names[-1] is None or self._names.find(names[0]) is not None:
            return None
        # Name and Value alone are no types here: a column of a table may be called so.
        domain = names[0].upper() if len(names) == 2 else "GENERIC" if names[0].upper() == "NAMEVALUE" else ""
        number = NAMED.get(domain, {}).get(names[-1].upper())
        return (
            None
            if number is None
            else CompilerSymbol("scalar", f"0x{number:08x}", "INTEGER", constant=True, local=False)
        )

    # --- steps ------------------------------------------------------------------------------------

    def key(self, step: Step) -> str | None:
        """The key of a step when it is known now."""
        if step.name is None:
            return None
        if step.namespace is not None:
            symbol = self._names.find(step.namespace)
            if symbol is None:
                if step.namespace == "xmlns":
                    return f"{{{XMLNS_URI}}}{step.name}"
                if step.namespace == "xml":
                    return f"{{{XML_URI}}}{step.name}"
                raise Unsupported(step, f"the namespace {step.namespace} is not declared")
            if symbol.kind == "namespace":
                uri = symbol.type
                return f"{{{uri}}}{step.name}" if uri else step.name
            return None
        if step.namespace_expression is not None or step.any_namespace:
            return None
        return step.name

    def plain_key(self, step: Step) -> str | None:
        """The key of a step that is nothing but a name."""
        if step.kinds or step.index is not None or step.name is None:
            return None
        return self.key(step)

    def kinds(self, kinds: tuple[Expression | KindName, ...]) -> str:
        """A tuple of kinds in Python."""
        if not kinds:
            return "()"
        parts = []
        for kind in kinds:
            if isinstance(kind, KindName):
                table = NAMED.get(kind.domain.upper() or "GENERIC", {})
                number = table.get(kind.name.upper())
                if number is None:
                    shown = f"{kind.domain}.{kind.name}" if kind.domain else kind.name
                    raise Unsupported(kind, f"there is no type ({shown})")
                parts.append(f"0x{number:08x}")
            elif isinstance(kind, Literal) and type(kind.value) is int:
                parts.append(f"0x{kind.value:08x}")
            else:
                parts.append(f"kind_number({self._expressions.expression(kind).text})")
        return f"({', '.join(parts)},)"

    def pattern(self, step: Step) -> str:
        """What `matching` looks for, in Python."""
        namespace: str
        if step.any_namespace or (step.any_name and step.namespace is None and step.namespace_expression is None):
            namespace = "None"
        else:
            namespace = self.namespace(step)
        if step.name is not None:
            name = repr(step.name)
        elif step.name_expression is not None:
            name = self._expressions.expression(step.name_expression).text
        else:
            name = "None"
            if not step.any_name and step.namespace is None and step.namespace_expression is None:
                namespace = "None"
        return f"({namespace}, {name}, {self.kinds(step.kinds)})"

    def namespace(self, step: Step) -> str:
        if step.namespace_expression is not None:
            return f"namespace_of({self._expressions.expression(step.namespace_expression).text})"
        if step.namespace is not None:
            symbol = self._names.find(step.namespace)
            if symbol is None:
                if step.namespace in ("xmlns", "xml"):
                    return repr(XMLNS_URI if step.namespace == "xmlns" else XML_URI)
                raise Unsupported(step, f"the namespace {step.namespace} is not declared")
            if symbol.kind == "namespace":
                return repr(symbol.type)
            return f"namespace_of({symbol.python})"
        return "''"

    def _computed_key(self, step: Step) -> str | None:
        """Python for the key of `{name}` or `ns:{name}`, with no kind."""
        if step.kinds or step.any_namespace or step.any_name:
            return None
        if step.name_expression is not None:
            return f"key_of({self.namespace(step)}, {self._expressions.expression(step.name_expression).text})"
        if step.name is not None:
            known = self.key(step)
            return repr(known) if known is not None else f"key_of({self.namespace(step)}, {step.name!r})"
        return None

    def _known_kind(self, step: Step) -> tuple[str, str] | None:
        """Key and kind of `(XML.Attribute)name`, where the name is known now and there is one kind."""
        key = self.key(step)
        return (key, self.kinds(step.kinds)[1:-2]) if key is not None and len(step.kinds) == 1 else None

    def _number(self, step: Step) -> str:
        assert step.index is not None
        return "1" if step.index.expression is None else self._expressions.expression(step.index.expression).text

    # --- finding ------------------------------------------------------------------------------------

    def base(self, path: Path) -> tuple[str, tuple[Step, ...]]:
        symbol, rest = self.resolve(path)
        if symbol.kind not in ("tree", "reference", "row"):
            what = "a database" if symbol.kind == "database" else f"{path.steps[0].name} is a value and"
            raise Unsupported(path, f"{what} has no fields here")
        return symbol.python, rest

    def element(self, path: Path) -> str:
        """Python for the element that a path names, or None."""
        base, steps = self.base(path)
        return self.below(base, steps)

    def below(self, base: str, steps: tuple[Step, ...]) -> str:
        return self._chain(base, steps, "walk", self._step)

    def _chain(
        self, base: str, steps: tuple[Step, ...], walk: str, one: Callable[[str, Step], str], *, whole: bool = False
    ) -> str:
        """A path from `base`: runs of plain names at once, every other step by `one`."""
        code = base
        prefix: tuple[str, ...] = (base,) if base in self._trees else ()
        keys: list[str] = []
        for step in steps:
            key = self.plain_key(step)
            if key is not None:
                keys.append(key)
                continue
            if keys:
                code, rest = self.remembered(prefix, code, keys, _REMEMBERED[walk], whole=True)
                code = f"{walk}({code}, {keys_literal(rest)})" if rest else code
                prefix = (*prefix, *keys) if prefix else ()
                keys = []
            code, prefix = self._indexed(code, prefix, step, walk) or (one(code, step), ())
        code, keys = self.remembered(prefix, code, keys, _REMEMBERED[walk], whole=whole)
        if walk == "walk" and len(keys) == 1 and code.isidentifier():
            # A variable always has an element.
            return f"{code}.first({keys[0]!r})"
        return f"{walk}({code}, {keys_literal(keys)})" if keys else code

    def remembered(
        self, prefix: tuple[str, ...], code: str, keys: list[str], function: str, *, whole: bool
    ) -> tuple[str, list[str]]:
        """Python for the beginning of a path, and the keys behind it.

        Programs walk the same paths again and again. Where a beginning is used twice, its end is kept at a site until
        the structure of some tree changes.
        """
        count = len(keys) if whole else len(keys) - 1
        if len(prefix) != 1 or count < 1:
            return code, keys
        site = self._sites.site((*prefix, *keys[:count]))
        if site is None:
            return code, keys
        walked = f"{function}({site}, {code}, {keys_literal(keys[:count])})"
        return f"({site}[1] if {site}[0] == STRUCTURE[0] else {walked})", keys[count:]

    def _indexed(self, code: str, prefix: tuple[str, ...], step: Step, walk: str) -> tuple[str, tuple[str, ...]] | None:
        """`name[i]`, kept as long as `i` is the same, where the way to it is kept too."""
        index = step.index
        if not prefix or index is None or index.form != "number" or step.kinds:
            return None
        key = self.key(step)
        number = self._number(step)
        if key is None or not (number.isdigit() or number.isidentifier()):
            return None
        site = self._sites.site((*prefix, f"{key}[{number}]"))
        if site is None:
            return None
        walked = f"{_REMEMBERED[walk].replace('_from', '_nth_from')}({site}, {code}, {key!r}, {number})"
        return f"({site}[1] if {site}[0] == STRUCTURE[0] and {site}[2] == {number} else {walked})", ()

    def _step(self, code: str, step: Step) -> str:
        index = step.index
        computed = self._computed_key(step)
        if index is None:
            known = self._known_kind(step)
            if known is not None:
                return f"find_kind({code}, {known[0]!r}, {known[1]})"
            return f"walk({code}, ({computed},))" if computed else f"first_matching({code}, {self.pattern(step)})"
        if index.form == "all":
            raise Unsupported(step, "[] stands for a list, and one element is wanted here")
        if computed and index.form == "number":
            return f"nth({code}, {computed}, {self._number(step)})"
        return f"pick({self._all(code, step)}, {index.form!r}, {self._number(step)})"

    def _all(self, code: str, step: Step) -> str:
        computed = self._computed_key(step)
        if computed:
            return f"named({code}, {computed})"
        if step.any_name and not step.kinds and step.namespace is None and step.namespace_expression is None:
            return f"every({code})"
        return f"matching({code}, {self.pattern(step)})"

    def elements(self, path: Path) -> str:
        """Python for the list of elements that a path names: `[]` at its end, or at most one."""
        last = path.steps[-1]
        if last.index is not None and last.index.form == "all":
            if len(path.steps) == 1:
                symbol, _ = self.resolve(path)
                return f"every({symbol.python})" if symbol.kind == "row" else f"at_most_one({symbol.python})"
            base, steps = self.base(path)
            return self._all(self.below(base, steps[:-1]), replace(last, index=None))
        return f"at_most_one({self.element(path)})"

    def is_list(self, path: Path) -> bool:
        last = path.steps[-1]
        return last.index is not None and last.index.form == "all"

    def value(self, path: Path) -> Code:
        """Python for the value of a path: a variable, or a field."""
        scalar = self.is_scalar(path)
        if scalar is not None:
            if scalar.kind == "namespace":
                return Code(repr(scalar.type), "CHARACTER")
            return Code(scalar.python, scalar.type)
        symbol, steps = self.resolve(path)
        if symbol.kind == "database":
            raise Unsupported(path, "a database column outside of a SELECT")
        keys = [self.plain_key(step) for step in steps]
        known = [key for key in keys if key is not None]
        if steps and len(known) == len(keys):
            if symbol.kind == "tree" and len(known) > 1 and path.steps[0].name in ("InputRoot", "Root"):
                return Code(self._read_below(symbol.python, known))
            prefix = (symbol.python,) if symbol.python in self._trees else ()
            start, rest = self.remembered(prefix, symbol.python, known, "find_from", whole=False)
            if len(rest) == 1 and start.isidentifier():
                return Code(f"value_of({start}.first({rest[0]!r}))")
            return Code(f"read({start}, {keys_literal(rest)})")
        split = len(keys)
        while split and keys[split - 1] is not None:
            split -= 1
        if split and split < len(keys):
            tail = [key for key in keys[split:] if key is not None]
            return Code(f"read({self.below(symbol.python, steps[:split])}, {keys_literal(tail)})")
        return Code(f"value_of({self.below(symbol.python, steps)})")

    def _read_below(self, root: str, keys: list[str]) -> str:
        """A value of the message that came in: the beginning of its body may tell, so it is not walked at once."""
        site = self._sites.site((root, *keys[:-1])) if root in self._trees else None
        if site is None:
            return f"read_below({root}, {keys_literal(keys)})"
        walked = f"read_from({site}, {root}, {keys_literal(keys[:-1])}, {keys[-1]!r})"
        return f"(value_of({site}[1].first({keys[-1]!r})) if {site}[0] == STRUCTURE[0] else {walked})"

    # --- making -------------------------------------------------------------------------------------

    def made(self, base: str, steps: tuple[Step, ...]) -> str:
        """Python for the element at the end of a path, created where it is missing."""
        return self._chain(base, steps, "make", self._made_step)

    def made_parent(self, base: str, steps: tuple[Step, ...]) -> tuple[str, str] | None:
        """Python for the element above the end of a path, created where it is missing, and the last name.

        None when the last step is more than a name.
        """
        key = self.plain_key(steps[-1]) if steps else None
        if key is None:
            return None
        return self._chain(base, steps[:-1], "make", self._made_step, whole=True), key

    def _made_step(self, code: str, step: Step) -> str:
        index = step.index
        computed = self._computed_key(step)
        if index is None:
            known = self._known_kind(step)
            if known is not None:
                return f"make_kind({code}, {known[0]!r}, {known[1]})"
            return f"make({code}, ({computed},))" if computed else f"make_matching({code}, {self.pattern(step)})"
        if index.form == "all":
            raise Unsupported(step, "[] stands for a list, and one element is wanted here")
        if computed and index.form == "number":
            return f"make_nth({code}, {computed}, {self._number(step)})"
        return f"make_matching({code}, {self.pattern(step)}, {index.form!r}, {self._number(step)})"
