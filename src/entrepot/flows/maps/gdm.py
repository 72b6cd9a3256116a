# SPDX-License-Identifier: Apache-2.0
"""IBM's .map files (graphical data maps), translated to our tables.

    <mappingRoot xmlns="http://www.ibm.com/2008/ccl/Mapping">
      <mappingDeclaration name="...">
        <input path="mb:msg(order,assembly,XMLNSC,Properties)" var="in"/>
        <output path="mb:msg(invoice,assembly,XMLNSC,Properties)" var="out"/>
        <move> <input path="$in/order/id"/> <output path="$out/invoice/number"/> </move>

Known are move, assign, convert, function, custom XPath, foreach, local, and
if with elseif and else. Submaps, databases, Java, join, append and the like are
refused by their names, all at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from lxml import etree

from entrepot.errors import ModelInvalid
from entrepot.flows.maps.notation import Target
from entrepot.flows.xpath import esql_name, esql_text, to_esql, to_value
from entrepot.flows.xpath_syntax import LocationPath, LocationStep, Number, parse_xpath
from entrepot.models.mxsd.files import parse_xml

NAMESPACE = "http://www.ibm.com/2008/ccl/Mapping"
Schemas = Callable[[str], bytes | None]
"""The content of a schema by the path that a map names; None when it is not there."""
Table = dict[str, Any]

_MESSAGE = re.compile(r"(?:\$(?P<schema>\w+)/)?mb:msg\((?P<parts>[^)]*)\)")
_SILENT = frozenset({"documentation", "task", "input", "output", "override", "param", "test", "filter", "code", "cast"})
_CONDITIONS = ("test", "filter", "condition")
_XML = ("XMLNSC", "XMLNS", "XML")
_DOMAINS = (*_XML, "MRM", "JSON", "BLOB", "SOAP")
_ENVIRONMENTS = {
    "LocalEnvironment": ("InputLocalEnvironment", "OutputLocalEnvironment"),
    "Environment": ("Environment", "Environment"),
    "ExceptionList": ("InputExceptionList", "OutputExceptionList"),
}


@dataclass(frozen=True, slots=True)
class MapFile:
    """What a .map file says, or what of it is not supported."""

    name: str
    table: list[Table]
    target: Target
    problems: tuple[tuple[str, str], ...]
    """file:line, and what."""


@dataclass(frozen=True, slots=True)
class _Spot:
    """A place in a message: where a path of the map starts."""

    esql: str
    domain: str
    root: str = ""
    """The name of the message's element while the spot is the whole assembly; then the next step says more."""
    output: bool = False
    qualified: str = ""
    """The namespace of the elements below."""
    namespace: str = ""
    """The namespace of the message's element."""


@dataclass(frozen=True, slots=True)
class _GdmScope:
    names: dict[str, _Spot] = field(default_factory=dict)
    source: _Spot | None = None
    target: _Spot | None = None


def read_map(content: bytes | str, file: str, *, name: str = "", schemas: Schemas | None = None) -> MapFile:
    """The table of a map; of the declaration `name`, else of the first."""
    data = content.encode() if isinstance(content, str) else content
    try:
        root = parse_xml(data, file)
    except ModelInvalid as error:
        return MapFile(name, [], Target(), ((f"{error.file}:{error.line}:{error.column}", error.problem),))
    return _GdmReader(file, schemas or _no_schemas).whole(root, name)


def _no_schemas(path: str) -> bytes | None:
    del path
    return None


class _Unsupported(ValueError):
    """A construct that maps here do not have."""


def _tag(element: etree._Element) -> str:
    return str(etree.QName(element).localname)


def _children(element: etree._Element) -> list[etree._Element]:
    return [child for child in element if isinstance(child.tag, str)]


class _GdmReader:
    def __init__(self, file: str, schemas: Schemas) -> None:
        self._file = file
        self._schemas = schemas
        self._problems: list[tuple[str, str]] = []
        self._namespaces: dict[str, str] = {}
        self._schema_paths: dict[str, str] = {}
        self._loops = 0
        self._target_domain = ""

    def _wrong(self, element: etree._Element, problem: str) -> None:
        self._problems.append((f"{self._file}:{element.sourceline or 1}", problem))

    # --- declarations ---------------------------------------------------------------------------

    def whole(self, root: etree._Element, name: str) -> MapFile:
        if etree.QName(root).namespace != NAMESPACE or _tag(root) != "mappingRoot":
            self._wrong(
                root, f"this is no graphical data map: it begins with {_tag(root)}; convert it with the toolkit"
            )
            return MapFile(name, [], Target(), tuple(self._problems))
        for child in root.iter(f"{{{NAMESPACE}}}namespace"):
            self._namespaces[str(child.get("prefix"))] = str(child.get("uri"))
        for child in _children(root):
            if _tag(child) in ("input", "output") and child.get("path"):
                self._schema_paths.setdefault(str(child.get("var") or _tag(child)), str(child.get("path")))
        declarations = [child for child in _children(root) if _tag(child) == "mappingDeclaration"]
        chosen = [each for each in declarations if not name or each.get("name") == name]
        if not chosen:
            known = ", ".join(str(each.get("name")) for each in declarations) or "none"
            self._wrong(root, f"there is no map {name!r}; there are {known}")
            return MapFile(name, [], Target(), tuple(self._problems))
        table, target = self._declaration(chosen[0])
        return MapFile(str(chosen[0].get("name") or name), table, target, tuple(self._problems))

    def _declaration(self, declaration: etree._Element) -> tuple[list[Table], Target]:
        names: dict[str, _Spot] = {}
        spots: dict[str, _Spot | None] = {"input": None, "output": None}
        for child in _children(declaration):
            if _tag(child) not in spots:
                continue
            if spots[_tag(child)] is not None:
                self._wrong(child, f"a second {_tag(child)} is not supported")
                continue
            spot = self._message(child)
            spots[_tag(child)] = spot
            if spot is not None and child.get("var"):
                names[str(child.get("var"))] = spot
        source, target = spots["input"], spots["output"]
        if source is None or target is None:
            if not self._problems:
                self._wrong(declaration, "a map has an input and an output message")
            return [], Target()
        self._target_domain = target.domain
        table = self._transforms(declaration, _GdmScope(names, source, target))
        return table, Target(target.domain, message_type=target.root if target.domain == "MRM" else "")

    def _message(self, element: etree._Element) -> _Spot | None:
        path = str(element.get("path") or "")
        found = _MESSAGE.fullmatch(path)
        parts = [part.strip() for part in found["parts"].split(",")] if found else []
        if found is None or len(parts) < 3 or parts[1] != "assembly":
            self._wrong(element, f"{path!r} is no message assembly; submaps are not supported")
            return None
        if parts[2] not in _DOMAINS:
            self._wrong(element, f"the domain {parts[2]} is not supported; there are {', '.join(_DOMAINS)}")
            return None
        output = _tag(element) == "output"
        namespace = str(element.get("namespace") or "") if parts[2] in _XML else ""
        qualified = self._qualified(element, namespace, found["schema"] or _tag(element)) if namespace else ""
        base = "OutputRoot" if output else "InputRoot"
        return _Spot(base, parts[2], parts[0], output, qualified, namespace)

    def _qualified(self, element: etree._Element, namespace: str, schema: str) -> str:
        """The namespace of local elements, which only the schema knows."""
        path = self._schema_paths.get(schema, "")
        content = self._schemas(path) if path else None
        if content is None:
            problem = f"the schema {path or '?'} is not there, so it is not known whether its elements are qualified"
            self._wrong(element, f"{problem}; put it beside the map")
            return ""
        try:
            root = parse_xml(content, path)
        except ModelInvalid as error:
            self._wrong(element, f"the schema {path}: {error.problem}")
            return ""
        return namespace if root.get("elementFormDefault") == "qualified" else ""

    # --- transforms -----------------------------------------------------------------------------

    def _transforms(self, parent: etree._Element, scope: _GdmScope) -> list[Table]:
        table: list[Table] = []
        for child in _children(parent):
            kind = _tag(child)
            if kind in _SILENT or (kind == "condition" and child.get("lang")):
                continue
            write = getattr(self, f"_write_{kind}", None)
            if write is None:
                self._wrong(child, f"<{kind}> is not supported in maps")
                continue
            try:
                steps: list[Table] = write(child, scope)
                condition = self._condition(child, scope)
            except ValueError as error:
                self._wrong(child, f"<{kind}>: {error}")
                continue
            if condition and kind not in ("if", "foreach", "condition"):
                steps = [{"if": {"when": condition, "map": steps}}]
            table += steps
            for override in child.findall(f"{{{NAMESPACE}}}override"):
                table += self._transforms(override, scope)
        return table

    def _write_move(self, element: etree._Element, scope: _GdmScope) -> list[Table]:
        source, target = self._input(element, scope), self._output(element, scope)
        if self._target_domain != "MRM" and not source.esql.endswith("]") and not target.esql.endswith("]"):
            top = target.esql.count(".") == 1 and not target.esql.startswith("target_")
            if not top:
                # Whether an element repeats is known to the schema only; a list of one is copied as well.
                return [{"copy": [{"from": f"{source.esql}[]", "to": f"{target.esql}[]"}]}]
        return [{"copy": [{"from": source.esql, "to": target.esql}]}]

    def _write_convert(self, element: etree._Element, scope: _GdmScope) -> list[Table]:
        source, target = self._input(element, scope), self._output(element, scope)
        value = source.esql
        if element.get("defaultValue") is not None:
            value = f"COALESCE({value}, {esql_text(str(element.get('defaultValue')))})"
        return [{"set": {target.esql: value}}]

    def _write_assign(self, element: etree._Element, scope: _GdmScope) -> list[Table]:
        return [{"set": {self._output(element, scope).esql: esql_text(str(element.get("value") or ""))}}]

    def _write_function(self, element: etree._Element, scope: _GdmScope) -> list[Table]:
        names = self._named_inputs(element, scope)
        values = [str(param.get("value") or "") for param in element.findall(f"{{{NAMESPACE}}}param")]
        if not values:
            values = [f"${name}" for name in names.arguments]
        text = f"{element.get('ref') or ''}({', '.join(values)})"
        return [{"set": {self._output(element, scope).esql: self._value(text, names.scope)}}]

    def _write_custom(self, element: etree._Element, scope: _GdmScope) -> list[Table]:
        code = element.find(f"{{{NAMESPACE}}}code")
        language = "" if code is None else str(code.get("language") or code.get("lang") or "")
        if code is None or language.lower() != "xpath":
            raise _Unsupported(f"custom code in {language or 'no language'}; only XPath is supported")
        text = str(code.get("internalCode") or code.text or "").strip()
        names = self._named_inputs(element, scope)
        return [{"set": {self._output(element, scope).esql: self._value(text, names.scope)}}]

    _write_xpath = _write_custom

    def _write_local(self, element: etree._Element, scope: _GdmScope) -> list[Table]:
        return self._transforms(element, self._inner(element, scope))

    def _write_foreach(self, element: etree._Element, scope: _GdmScope) -> list[Table]:
        if element.find(f"{{{NAMESPACE}}}sort") is not None:
            raise _Unsupported("<sort> is not supported")
        source, target = self._input(element, scope), self._output(element, scope)
        if source.esql.endswith("]"):
            return self._write_local(element, scope)
        self._loops += 1
        item, place = f"source_{self._loops}", f"target_{self._loops}"
        inner = self._inner(element, scope, replace(source, esql=item), replace(target, esql=place))
        loop: Table = {"from": source.esql, "to": target.esql, "as": item, "into": place}
        condition = self._condition(element, inner, own=True)
        if condition:
            loop["where"] = condition
        loop["map"] = self._transforms(element, inner)
        return [{"foreach": [loop]}]

    def _write_if(self, element: etree._Element, scope: _GdmScope) -> list[Table]:
        return self._choices([element], scope)

    def _write_condition(self, element: etree._Element, scope: _GdmScope) -> list[Table]:
        return self._choices(_children(element), scope)

    def _choices(self, branches: list[etree._Element], scope: _GdmScope) -> list[Table]:
        """if, elseif, else: one inside of the other."""
        if not branches:
            return []
        first, *rest = branches
        inner = self._inner(first, scope)
        if _tag(first) == "else":
            return self._transforms(first, inner)
        if _tag(first) not in ("if", "elseif"):
            raise _Unsupported(f"<{_tag(first)}> where if, elseif or else belongs")
        condition = self._condition(first, inner, own=True)
        if not condition:
            raise _Unsupported("it has no <test>")
        choice: Table = {"when": condition, "map": self._transforms(first, inner)}
        if rest:
            choice["else"] = self._choices(rest, scope)
        return [{"if": choice}]

    # --- expressions ----------------------------------------------------------------------------

    def _condition(self, element: etree._Element, scope: _GdmScope, *, own: bool = False) -> str:
        for kind in _CONDITIONS:
            found = element.find(f"{{{NAMESPACE}}}{kind}")
            if found is None or (kind == "condition" and not found.get("lang")):
                continue
            if str(found.get("lang") or "xpath").lower() != "xpath":
                raise _Unsupported(f"a condition in {found.get('lang')}; only XPath is supported")
            inner = scope if own else self._named_inputs(element, scope).scope
            return to_esql((found.text or "").strip(), namespaces=self._namespaces, names=_esql_names(inner))
        return ""

    def _value(self, text: str, scope: _GdmScope) -> str:
        context = scope.source.esql if scope.source is not None and not scope.source.root else ""
        return to_value(text, namespaces=self._namespaces, names=_esql_names(scope), context=context)

    def _named_inputs(self, element: etree._Element, scope: _GdmScope) -> _Named:
        names = dict(scope.names)
        arguments: list[str] = []
        for number, each in enumerate(element.findall(f"{{{NAMESPACE}}}input"), 1):
            name = str(each.get("var") or f"argument_{number}")
            names[name] = self._spot(each, scope, output=False)
            arguments.append(name)
        return _Named(_GdmScope(names, scope.source, scope.target), arguments)

    # --- paths ----------------------------------------------------------------------------------

    def _inner(
        self, element: etree._Element, scope: _GdmScope, source: _Spot | None = None, target: _Spot | None = None
    ) -> _GdmScope:
        """The scope inside of a transform: its variables, and what paths without one start from."""
        names = dict(scope.names)
        first = {"input": source, "output": target}
        for each in _children(element):
            kind = _tag(each)
            if kind not in first:
                continue
            spot = first[kind] if first[kind] is not None and not _has_earlier(each) else None
            spot = spot or self._spot(each, scope, output=kind == "output")
            first[kind] = first[kind] or spot
            if each.get("var"):
                names[str(each.get("var"))] = spot
        return _GdmScope(names, first["input"] or scope.source, first["output"] or scope.target)

    def _input(self, element: etree._Element, scope: _GdmScope) -> _Spot:
        return self._only(element, scope, "input")

    def _output(self, element: etree._Element, scope: _GdmScope) -> _Spot:
        return self._only(element, scope, "output")

    def _only(self, element: etree._Element, scope: _GdmScope, kind: str) -> _Spot:
        found = element.findall(f"{{{NAMESPACE}}}{kind}")
        if not found or (len(found) > 1 and kind == "output"):
            raise _Unsupported(f"it has {len(found)} {kind}s")
        return self._spot(found[0], scope, output=kind == "output")

    def _spot(self, element: etree._Element, scope: _GdmScope, *, output: bool) -> _Spot:
        text = str(element.get("path") or "")
        path = parse_xpath(text)
        if not isinstance(path, LocationPath):
            raise _Unsupported(f"{text!r} is no path")
        start = scope.target if output else scope.source
        if path.variable is not None:
            start = scope.names.get(path.variable)
        if start is None:
            raise _Unsupported(f"the variable ${path.variable} is unknown")
        steps = list(path.steps)
        if start.root and steps:
            start = self._below_assembly(start, steps.pop(0))
        written = [start.esql]
        for number, step in enumerate(steps):
            following = steps[number + 1].name if number + 1 < len(steps) else ""
            written.append(_step(step, start, is_array=start.output and following == "Item"))
        return replace(start, esql=".".join(written))

    def _below_assembly(self, start: _Spot, step: LocationStep) -> _Spot:
        side = 1 if start.output else 0
        if step.name in _ENVIRONMENTS:
            return replace(start, esql=_ENVIRONMENTS[step.name][side], root="", qualified="", domain="")
        if step.name != start.root:
            return replace(start, esql=f"{start.esql}.{esql_name(step.name)}", root="", qualified="", domain="")
        if start.domain == "MRM":
            return replace(start, esql=f"{start.esql}.MRM", root="")
        if start.domain in ("JSON", "BLOB", "SOAP"):
            return replace(start, esql=f"{start.esql}.{start.domain}", root="")
        root = esql_name(start.root)
        if start.namespace:
            root = f"{{{esql_text(start.namespace)}}}:{root}"
        return replace(start, esql=f"{start.esql}.{start.domain}.{root}", root="")


@dataclass(frozen=True, slots=True)
class _Named:
    scope: _GdmScope
    arguments: list[str]


def _esql_names(scope: _GdmScope) -> dict[str, str]:
    return {name: spot.esql for name, spot in scope.names.items() if not spot.output}


def _has_earlier(element: etree._Element) -> bool:
    return any(each.tag == element.tag for each in element.itersiblings(preceding=True))


def _step(step: LocationStep, spot: _Spot, *, is_array: bool) -> str:
    position = ""
    if step.predicates:
        first = step.predicates[0]
        if len(step.predicates) > 1 or not isinstance(first, Number):
            raise _Unsupported("only positions are supported in paths; say conditions in a <filter> or <test>")
        position = f"[{first.text}]"
    name = esql_name(step.name)
    if spot.domain in _XML and spot.qualified and not step.attribute:
        name = f"{{{esql_text(spot.qualified)}}}:{name}"
    if step.attribute:
        name = f"({spot.domain if spot.domain in _XML else 'XMLNSC'}.Attribute){name}"
    elif is_array and spot.domain == "JSON":
        name = f"(JSON.Array){name}"
    return name + position
