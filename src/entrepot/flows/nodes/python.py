# SPDX-License-Identifier: Apache-2.0
"""Python: a node that calls a function which the flow's author has written."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, ClassVar

from entrepot.errors import ModelNotFound
from entrepot.errors.describing import error_text
from entrepot.esql.user_functions import TIME_S_MAX, call_user_function, own_code
from entrepot.flows.definition import FlowDefinition, NodeDefinition
from entrepot.flows.journey import Journey
from entrepot.flows.nodes.node import FlowMistake, Node, NodeContext, Property
from entrepot.models.tree import Assembly

PythonFunction = Callable[..., Any]


class Python(Node):
    type: ClassVar[str] = "Python"
    about: ClassVar[str] = "Calls a Python function with the message, as JavaCompute does with a class."
    ibm: ClassVar[tuple[str, ...]] = ("ComIbmJavaCompute",)
    outputs: ClassVar[tuple[str, ...]] = ("out", "failure", "alternate")
    outputs_free: ClassVar[bool] = True
    properties: ClassVar[tuple[Property, ...]] = (
        Property(
            "function",
            "any",
            required=True,
            ibm="javaClass",
            about="`module:function`, or the function itself; it gets the message and a `send(terminal, message)`",
        ),
        Property("timeout_s", "number", TIME_S_MAX, about="how long a call may take, without `send`; 0: no limit"),
    )

    def __init__(self, definition: NodeDefinition, plan: NodeContext) -> None:
        super().__init__(definition, plan)
        self._function = find_function(self.settings["function"])
        self._function_name = str(getattr(self._function, "__qualname__", "the function"))
        self._time_s = float(self.settings["timeout_s"])

    @classmethod
    def check(cls, definition: NodeDefinition, flow: FlowDefinition) -> list[FlowMistake]:
        try:
            find_function(definition.properties.get("function"))
        except (ModelNotFound, ValueError) as error:
            return [FlowMistake(definition.name, str(error), "Write module:function; the module must be importable.")]
        return []

    def evaluate(self, assembly: Assembly, journey: Journey) -> None:
        """A function that returns an assembly sends it to `out`; one that returns None has said all by `send`.

        It may change what it gets: nodes beside it, and a catch terminal before it, see the message as it was.
        """
        own = Assembly(
            assembly.root.copy(),
            assembly.environment,
            assembly.local_environment.copy(),
            assembly.exception_list.copy(),
        )
        journey.world.allow_time(self._time_s)
        send = _Send(self, journey)
        try:
            answer = call_user_function(self._function, self._function_name, own, send, time_s=self._time_s)
        finally:
            send.is_open = False
        if answer is None:
            return
        if not isinstance(answer, Assembly):
            problem = f"{self._function_name} returned {type(answer).__name__}"
            raise TypeError(f"{problem}; return the message, or None after `send`")
        self.propagate("out", answer, journey)


class _Send:
    """What a function sends messages with, while it works on one."""

    def __init__(self, node: Node, journey: Journey) -> None:
        self._node = node
        self._journey = journey
        self._thread = threading.get_ident()
        self.is_open = True

    def __call__(self, terminal: str, assembly: Assembly) -> None:
        """Send a message to a terminal; returns when the nodes behind it have done their work."""
        # A message that is sent later, or by another thread, would belong to no unit of work, and be lost.
        if not self.is_open:
            raise RuntimeError("`send` was called when the function had returned already")
        if threading.get_ident() != self._thread:
            raise RuntimeError("`send` was called by another thread than the function's own")
        with own_code():
            self._node.propagate(terminal, assembly, self._journey)


def find_function(value: Any) -> PythonFunction:
    """A function, or the one that `module:function` names.

    Raises:
        ModelNotFound: There is none of that name, or its module cannot be imported.
        ValueError: That is no name of a function.
    """
    if callable(value):
        function: PythonFunction = value
        return function
    module_name, colon, name = str(value or "").partition(":")
    if not colon or not name:
        raise ValueError(f"{value!r} is no module:function")
    try:
        # The module is the author's too, and may do anything while it is imported.
        found = call_user_function(importlib.import_module, module_name, module_name, time_s=0)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        raise ModelNotFound("function", f"{module_name}:{name} ({error_text(error)})", ()) from error
    if not callable(found):
        raise ValueError(f"{value!r} is no function")
    named: PythonFunction = found
    return named
