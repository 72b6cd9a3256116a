# SPDX-License-Identifier: Apache-2.0
"""Syntax trees as short texts, so that tests can state what they expect on one line."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from entrepot.esql import syntax


def shown(node: Any) -> str:
    """A tree without its places and defaults: Set(target=x, value=(1 + 2))."""
    if isinstance(node, tuple):
        return "[" + ", ".join(shown(part) for part in node) + "]"
    if isinstance(node, syntax.Literal):
        return "UNKNOWN" if node.unknown else repr(node.value)
    if isinstance(node, syntax.Path):
        return ".".join(_step(step) for step in node.steps)
    if isinstance(node, syntax.Step):
        return _step(node)
    if isinstance(node, syntax.KindName):
        return f"<{node.domain}.{node.name}>"
    if isinstance(node, syntax.Binary):
        return f"({shown(node.left)} {node.operator} {shown(node.right)})"
    if isinstance(node, syntax.Unary):
        return f"({node.operator} {shown(node.operand)})"
    if isinstance(node, syntax.Call):
        form = f":{node.form.replace(' ', '_')}" if node.form else ""
        return f"{'.'.join(node.name)}{form}({', '.join(shown(argument) for argument in node.arguments)})"
    if isinstance(node, syntax.DataType):
        size = "" if node.precision is None else f"({node.precision},{node.scale})"
        return f"{node.name}{size}{' ' + node.qualifier if node.qualifier else ''}"
    if isinstance(node, syntax.Selected) and not node.alias:
        return shown(node.expression)
    if isinstance(node, syntax.SyntaxNode | syntax.SourceFile):
        return f"{type(node).__name__}({', '.join(_parts(node))})"
    return repr(node)


def _parts(node: Any) -> list[str]:
    parts = []
    for field in fields(node):
        value = getattr(node, field.name)
        if field.name in ("place", "file") or (field.name == "text" and isinstance(node, syntax.SourceFile)):
            continue
        if value == field.default or (field.default is MISSING and value in ((), None, "", False)):
            continue
        parts.append(f"{field.name}={shown(value)}")
    return parts


def _step(step: syntax.Step) -> str:
    kinds = f"({'+'.join(shown(kind) for kind in step.kinds)})" if step.kinds else ""
    namespace = ""
    if step.any_namespace:
        namespace = "*:"
    elif step.no_namespace:
        namespace = ":"
    elif step.namespace_expression is not None:
        namespace = f"{{{shown(step.namespace_expression)}}}:"
    elif step.namespace is not None:
        namespace = f"{step.namespace}:"
    name = "*" if step.any_name else step.name or ""
    if step.quoted:
        name = f'"{name}"'
    if step.name_expression is not None:
        name = f"{{{shown(step.name_expression)}}}"
    index = ""
    if step.index is not None:
        sign = {"number": "", "from_last": "<", "from_first": ">", "all": ""}[step.index.form]
        index = f"[{sign}{'' if step.index.expression is None else shown(step.index.expression)}]"
    return f"{kinds}{namespace}{name}{index}"
