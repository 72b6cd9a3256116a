# SPDX-License-Identifier: Apache-2.0
"""Maps as tables, written as ESQL.

    domain: MRM
    message_set: warehouse
    message_type: Order
    message_format: CWF1
    copy: [id, {from: buyer.name, to: customer}]
    set: {total: source.price * source.count}
    foreach:
      - {from: lines.line, to: items.item, map: {copy: [sku]}}
    if:
      - {when: source.country <> 'DE', map: {set: {vat: 0}}, else: {copy: [vat]}}

Paths are ESQL paths: of the input's body and of the output's, or from what
`foreach` is at. One that ends in [] copies all elements. In expressions
`source` and `target` are these two places. A map may be a list of tables, which
are done in turn. `copy: all-same-names` copies every leaf that the target's
model has; without a model, the whole tree. Values are cast to what the
target's model wants. Headers are copied.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from typing import Any

from entrepot.errors import EsqlInvalid, ModelNotFound
from entrepot.esql.parsing import parse_expression
from entrepot.flows.maps.models import cast_of, find_member, find_model, members_of, step_of
from entrepot.flows.xpath import esql_text
from entrepot.models.logical import MessageModel, MessageSet, Structure, StructureMember

ALL = "all-same-names"
DEPTH_MAX = 20
_TOP = ("domain", "message_set", "message_type", "message_format")
_KEYS = ("from", "to", "copy", "set", "foreach", "if")
_DATABASE = ("select", "insert", "update", "delete", "database", "row", "rows")
_SOURCES = ("InputRoot", "InputBody", "InputProperties", "InputLocalEnvironment", "InputExceptionList", "Environment")
_TARGETS = ("OutputRoot", "OutputLocalEnvironment", "OutputExceptionList", "Environment")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULT_NAMES = re.compile(r"\b(source|target)\b")

HEADERS = """\
DECLARE header_number INTEGER 1;
DECLARE header_count INTEGER CARDINALITY(InputRoot.*[]);
WHILE header_number < header_count DO
    SET OutputRoot.*[header_number] = InputRoot.*[header_number];
    SET header_number = header_number + 1;
END WHILE;
"""


@dataclass(frozen=True, slots=True)
class Target:
    """What the new message is to be; empty stays as the input's."""

    domain: str = ""
    message_set: str = ""
    message_type: str = ""
    message_format: str = ""


@dataclass(frozen=True, slots=True)
class MapText:
    """A map as ESQL, or what is wrong with it."""

    esql: str
    problems: tuple[tuple[str, str], ...]
    """Where in the table, and what."""


@dataclass(frozen=True, slots=True)
class _MapScope:
    """Where a table's paths start."""

    source: str
    target: str
    depth: int = 0
    """How many tables are around this one."""
    names: frozenset[str] = frozenset()
    """References that `foreach` has named, beside source and target."""
    target_path: tuple[str, ...] | None = ()
    """Steps from the body to the target, to find types by; None where they are not known."""


def write_map(table: Any, target: Target, sets: Sequence[MessageSet] = ()) -> MapText:
    """The ESQL statements of a map.

    What the table itself says about the output goes before `target`.
    """
    writer = _MapWriter(sets)
    top = table[0] if isinstance(table, list) and table else table
    names = {key: str(top.get(key) or "") for key in _TOP} if isinstance(top, dict) else dict.fromkeys(_TOP, "")
    whole = Target(**{key: names[key] or getattr(target, key) for key in _TOP})
    writer.begin(whole)
    writer.table(table, _MapScope("source", "target"), "map", top=True)
    return MapText("\n".join(writer.lines) + "\n", tuple(writer.problems))


@dataclass(slots=True)
class _MapWriter:
    sets: Sequence[MessageSet]
    lines: list[str] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)
    model: MessageModel | None = None
    domain: str = ""
    loops: int = 0

    def _line(self, scope: _MapScope, text: str) -> None:
        self.lines.append("    " * scope.depth + text)

    def _wrong(self, where: str, problem: str) -> None:
        self.problems.append((where, problem))

    # --- the whole ------------------------------------------------------------------------------

    def begin(self, target: Target) -> None:
        self.domain = target.domain
        if target.message_set and target.message_type:
            try:
                self.model = find_model(target.message_set, target.message_type, self.sets)
            except (ModelNotFound, ValueError) as error:
                self._wrong("map", str(error.what if isinstance(error, ModelNotFound) else error))
        self.lines += HEADERS.rstrip().split("\n")
        for name, value in (
            ("MessageSet", target.message_set),
            ("MessageType", target.message_type),
            ("MessageFormat", target.message_format),
        ):
            if value:
                self.lines.append(f"SET OutputRoot.Properties.{name} = {esql_text(value)};")
        self.lines.append("DECLARE source REFERENCE TO InputRoot.*[<];")
        self.lines.append("DECLARE target REFERENCE TO OutputRoot;")
        if target.domain:
            if not _NAME.fullmatch(target.domain):
                self._wrong("map.domain", f"{target.domain!r} is no domain")
            domain = esql_text(target.domain)
            self.lines.append(f"CREATE LASTCHILD OF OutputRoot AS target DOMAIN {domain} NAME {domain};")
        else:
            same = "FIELDNAME(source)"
            self.lines.append(f"CREATE LASTCHILD OF OutputRoot AS target DOMAIN {same} NAME {same};")

    def table(self, table: Any, scope: _MapScope, where: str, *, top: bool = False) -> None:
        if scope.depth > DEPTH_MAX:
            self._wrong(where, f"tables are nested more than {DEPTH_MAX} deep")
            return
        if isinstance(table, list):
            for number, each in enumerate(table, 1):
                self.table(each, scope, f"{where}[{number}]", top=top)
            return
        if not isinstance(table, dict):
            self._wrong(where, "a map is a table with copy, set, foreach or if, or a list of such tables")
            return
        self._keys(table, _KEYS + (_TOP if top else ()), where)
        scope = self._moved(table, scope, where)
        self._copies(table.get("copy"), scope, f"{where}.copy")
        self._settings(table.get("set"), scope, f"{where}.set")
        for number, loop in enumerate(_listed(table.get("foreach")), 1):
            self._loop(loop, scope, f"{where}.foreach[{number}]")
        for number, choice in enumerate(_listed(table.get("if")), 1):
            self._choice(choice, scope, f"{where}.if[{number}]")

    def _keys(self, table: Mapping[Any, Any], known: Sequence[str], where: str) -> bool:
        for key in table:
            if key in known:
                continue
            if key in _DATABASE:
                problem = "database rows in maps are not supported; use a Compute node with SELECT, or a Database node"
            else:
                alike = difflib.get_close_matches(str(key), known, 1)
                problem = f"{key!r} is unknown; " + (
                    f"did you mean {alike[0]!r}?" if alike else f"there are {', '.join(known)}"
                )
            self._wrong(f"{where}.{key}", problem)
        return all(key in known for key in table)

    def _moved(self, table: Mapping[str, Any], scope: _MapScope, where: str) -> _MapScope:
        source, target, path = scope.source, scope.target, scope.target_path
        if table.get("from"):
            source = self._source(table["from"], scope, f"{where}.from") or source
        if table.get("to"):
            target = self._target(table["to"], scope, f"{where}.to") or target
            path = self._path_below(table["to"], scope)
        return _MapScope(source, target, scope.depth, scope.names, path)

    # --- copy -----------------------------------------------------------------------------------

    def _copies(self, copies: Any, scope: _MapScope, where: str) -> None:
        if copies is None:
            return
        if copies == ALL:
            self._copy_all(scope, where)
            return
        if isinstance(copies, str | dict):
            copies = [copies]
        if not isinstance(copies, list):
            self._wrong(where, f"it is a list of paths, of {{from: PATH, to: PATH}}, or {ALL}")
            return
        for number, each in enumerate(copies, 1):
            place = f"{where}[{number}]"
            if isinstance(each, str):
                each = {"from": each, "to": each}
            if not isinstance(each, dict) or not self._keys(each, ("from", "to"), place):
                continue
            if "from" not in each or "to" not in each:
                self._wrong(place, "a copy has from and to")
                continue
            source = self._source(each["from"], scope, f"{place}.from")
            target = self._target(each["to"], scope, f"{place}.to")
            if source and target:
                self._copy(source, target, find_member(self.model, self._path_below(each["to"], scope) or ()), scope)

    def _copy(self, source: str, target: str, member: StructureMember | None, scope: _MapScope) -> None:
        if source.endswith("[]") is not target.endswith("[]"):
            # All elements of a path go to all of the other.
            source, target = source.removesuffix("[]") + "[]", target.removesuffix("[]") + "[]"
        cast = "" if member is None or source.endswith("[]") else cast_of(member)
        value = f"CAST({source} AS {cast})" if cast else source
        self._line(scope, f"SET {target} = {value};")

    def _copy_all(self, scope: _MapScope, where: str) -> None:
        if self.model is None:
            self._line(scope, f"SET {scope.target} = {scope.source};")
            return
        structure: Structure | None = self.model.structure
        if scope.target_path:
            member = find_member(self.model, scope.target_path)
            structure = member.content if member is not None and isinstance(member.content, Structure) else None
        if structure is None or scope.target_path is None:
            self._wrong(where, "the target's model has no structure there, so it is not known what to copy")
            return
        self._copy_members(structure, scope)

    def _copy_members(self, structure: Structure, scope: _MapScope) -> None:
        for member in members_of(structure):
            step = step_of(member)
            source, target = f"{scope.source}.{step}", f"{scope.target}.{step}"
            if not isinstance(member.content, Structure):
                many = "[]" if member.max_occurs != 1 else ""
                self._copy(source + many, target + many, member, scope)
            elif member.max_occurs == 1:
                inner = _MapScope(source, target, scope.depth, scope.names, None)
                self._line(scope, f"IF EXISTS({source}[]) THEN")
                self._copy_members(member.content, _deeper(inner))
                self._line(scope, "END IF;")
            else:
                item, place = self._open_loop(f"{source}[]", target, scope)
                self._copy_members(member.content, _MapScope(item, place, scope.depth + 2, scope.names, None))
                self._close_loop(scope)

    # --- set ------------------------------------------------------------------------------------

    def _settings(self, settings: Any, scope: _MapScope, where: str) -> None:
        if settings is None:
            return
        if not isinstance(settings, dict):
            self._wrong(where, "it is a table of paths and ESQL expressions")
            return
        for path, expression in settings.items():
            target = self._target(path, scope, f"{where}.{path}")
            value = self._expression(expression, f"{where}.{path}")
            if target and value:
                member = find_member(self.model, self._path_below(str(path), scope) or ())
                cast = "" if member is None or target.endswith("[]") else cast_of(member)
                self._line(scope, f"SET {target} = {f'CAST({value} AS {cast})' if cast else value};")

    def _expression(self, value: Any, where: str) -> str:
        match value:
            case None:
                return "NULL"
            case bool():
                return "TRUE" if value else "FALSE"
            case int() | Decimal():
                return str(value)
            case float() if isfinite(value):
                # 1.10 is meant as it stands there, not as the nearest binary number.
                return f"{Decimal(repr(value)):f}"
            case str():
                return value if self._parses(value, where) else ""
        self._wrong(where, "this is no ESQL expression")
        return ""

    def _parses(self, text: str, where: str) -> bool:
        try:
            parse_expression(text, where)
        except EsqlInvalid as error:
            for _, line, column, problem, _ in error.mistakes:
                self._wrong(f"{where}:{line}:{column}", problem)
            return False
        return True

    # --- foreach, if ----------------------------------------------------------------------------

    def _loop(self, loop: Any, scope: _MapScope, where: str) -> None:
        if not isinstance(loop, dict) or not {"from", "to", "map"} <= set(loop):
            self._wrong(where, "a foreach has from, to and map")
            return
        if not self._keys(loop, ("from", "to", "map", "where", "as", "into"), where):
            return
        source = self._source(loop["from"], scope, f"{where}.from").removesuffix("[]")
        target = self._target(loop["to"], scope, f"{where}.to").removesuffix("[]")
        names = [str(loop.get(key) or "") for key in ("as", "into")]
        for key, name in zip(("as", "into"), names, strict=True):
            if name and (not _NAME.fullmatch(name) or name in ("source", "target")):
                self._wrong(f"{where}.{key}", f"{name!r} is no name for a reference")
                return
        if not source or not target:
            return
        condition = self._expression(loop["where"], f"{where}.where") if loop.get("where") else ""
        aliases = _mentions_default_names(loop.get("map"))
        item, place = self._open_loop(
            f"{source}[]", target, scope, names[0], names[1], condition, aliases=aliases or bool(condition)
        )
        path = self._path_below(str(loop["to"]), scope)
        inner = _MapScope(item, place, scope.depth + 2, scope.names | {item, place}, path)
        self.table(loop["map"], inner, f"{where}.map")
        self._close_loop(scope, condition=bool(condition))

    def _open_loop(
        self,
        source: str,
        target: str,
        scope: _MapScope,
        item: str = "",
        place: str = "",
        condition: str = "",
        *,
        aliases: bool = False,
    ) -> tuple[str, str]:
        self.loops += 1
        item = item or f"source_{self.loops}"
        place = place or f"target_{self.loops}"
        parent, step = _split(target)
        inner = _deeper(scope)
        self._line(scope, f"FOR {item} AS {source} DO BEGIN")
        if aliases:
            self._line(inner, f"DECLARE source REFERENCE TO {item};")
        if condition:
            self._line(inner, f"IF {condition} THEN")
        self._line(inner, f"DECLARE {place} REFERENCE TO OutputRoot;")
        if parent != scope.target:
            self._line(inner, f"CREATE FIELD {parent} AS {place};")
            parent = place
        self._line(inner, f"CREATE LASTCHILD OF {parent} AS {place} IDENTITY {step};")
        self._line(inner, "BEGIN")
        if aliases:
            self._line(inner, f"DECLARE target REFERENCE TO {place};")
        return item, place

    def _close_loop(self, scope: _MapScope, *, condition: bool = False) -> None:
        self._line(_deeper(scope), "END;")
        if condition:
            self._line(_deeper(scope), "END IF;")
        self._line(scope, "END; END FOR;")

    def _choice(self, choice: Any, scope: _MapScope, where: str) -> None:
        if not isinstance(choice, dict) or not {"when", "map"} <= set(choice):
            self._wrong(where, "an if has when and map, and may have else")
            return
        if not self._keys(choice, ("when", "map", "else"), where):
            return
        condition = self._expression(choice["when"], f"{where}.when")
        if not condition:
            return
        inner = _deeper(scope)
        self._line(scope, f"IF {condition} THEN")
        self.table(choice["map"], inner, f"{where}.map")
        if choice.get("else") is not None:
            self._line(scope, "ELSE")
            self.table(choice["else"], inner, f"{where}.else")
        self._line(scope, "END IF;")

    # --- paths ----------------------------------------------------------------------------------

    def _source(self, path: Any, scope: _MapScope, where: str) -> str:
        return self._path(path, scope.source, (*_SOURCES, "source", *scope.names), where)

    def _target(self, path: Any, scope: _MapScope, where: str) -> str:
        return self._path(path, scope.target, (*_TARGETS, "target", *scope.names), where)

    def _path(self, path: Any, start: str, known: Sequence[str], where: str) -> str:
        text = str(path).strip() if isinstance(path, str | int) else ""
        if not text:
            self._wrong(where, "this is no path")
            return ""
        whole = text if _split_steps(text)[0] in known else f"{start}.{text}"
        return whole if self._parses(whole, where) else ""

    def _path_below(self, path: Any, scope: _MapScope) -> tuple[str, ...] | None:
        steps = _split_steps(str(path))
        if steps[:2] == ["OutputRoot", self.domain]:
            return tuple(steps[2:])
        if scope.target_path is None or steps[0] in (*_TARGETS, "target") or steps[0] in scope.names:
            return None
        return (*scope.target_path, *steps)


def _deeper(scope: _MapScope) -> _MapScope:
    return _MapScope(scope.source, scope.target, scope.depth + 1, scope.names, scope.target_path)


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _split_steps(path: str) -> list[str]:
    """The steps of an ESQL path; dots in names and brackets do not count."""
    return re.findall(r'(?:"(?:[^"]|"")*"|\([^)]*\)|\{[^}]*\}|\[[^\]]*\]|[^.])+', path) or [path]


def _split(path: str) -> tuple[str, str]:
    """What a path's last step lies in, and that step."""
    steps = _split_steps(path)
    return ".".join(steps[:-1]), steps[-1]


def _mentions_default_names(table: Any) -> bool:
    """Whether an expression of a table speaks of source or target; then they have to be there."""
    match table:
        case str():
            return _DEFAULT_NAMES.search(table) is not None
        case dict():
            return any(_mentions_default_names(each) for each in (*table, *table.values()))
        case list():
            return any(_mentions_default_names(each) for each in table)
    return False
