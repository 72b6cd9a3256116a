# SPDX-License-Identifier: Apache-2.0
"""ESQL as a language of content filters: `esql:Body.order.total > 100`.

The body is a message of its own: XML is read as XMLNSC, JSON as JSON, so
`Root.XMLNSC.order` and `Root.JSON.Data.order` name fields and `Body` is
whichever it is. The program's entry registers the language with the topics room.
"""

from __future__ import annotations

from entrepot.errors import ContentFilterSyntaxError, EntrepotError, EsqlInvalid
from entrepot.esql.program import EsqlModule, compile_condition
from entrepot.esql.runtime.run import EsqlRun
from entrepot.models.domains import find_domain
from entrepot.models.tree import Assembly, Folder, Root

STEPS_MAX = 100_000
"""A publisher waits for all filters, so each gets a small budget."""


class EsqlFilter:
    """A condition of a subscription."""

    language = "esql"

    def __init__(self, text: str, module: EsqlModule) -> None:
        self.text = text
        self._module = module

    def matches(self, document: Assembly) -> bool:
        try:
            return self._module.run(EsqlRun(document, mode="", steps=STEPS_MAX)) is True
        except EntrepotError:
            return False


class EsqlLanguage:
    """How the topics room meets ESQL."""

    name = "esql"

    def compile(self, expression: str) -> EsqlFilter:
        text = f"{self.name}:{expression}"
        try:
            return EsqlFilter(text, compile_condition(expression, text))
        except EsqlInvalid as error:
            _, line, column, problem, _ = error.mistakes[0]
            place = len(self.name) + 1 + column if line == 1 else 1
            raise ContentFilterSyntaxError(text, place, problem) from None

    def parse(self, body: bytes) -> Assembly | None:
        """A body as a message; None when it is neither XML nor JSON."""
        start = body[:64].lstrip()[:1]
        name = "XMLNSC" if start in (b"<", b"\xef") else "JSON" if start in (b"{", b"[") else ""
        domain = find_domain(name)
        if domain is None:
            return None
        root = Root()
        root.append(Folder(domain, body))
        return Assembly(root)
