# SPDX-License-Identifier: Apache-2.0
"""What a DISPLAY statement asks to see, checked as far as that goes without a queue manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from entrepot.server.mqsc.commands import OPTIONS, DisplayCommand
from entrepot.server.mqsc.display import OPERATORS, Condition
from entrepot.server.mqsc.forms import Form, Integer, InvalidValue, NumberOrWord, Switch, Words
from entrepot.server.mqsc.keywords import OBJECT_KINDS, QUEUE_KINDS, kinds_with
from entrepot.server.mqsc.object_kind import COUNT_MAX, ObjectKind
from entrepot.server.mqsc.running import RUNNING
from entrepot.server.mqsc.syntax import Parameter, Position, Value
from entrepot.server.mqsc.wording import listed, no_keyword, shortened, suggestion


class DisplayChecker:
    """Reads the parameters of one DISPLAY; errors go to `report`."""

    def __init__(self, noun: str, report: Callable[[Position, str], None], warnings: list[str]) -> None:
        self._noun = noun
        self._report = report
        self._warnings = warnings
        # What a queue manager knows of what runs is its own affair: the rows decide which keywords there are.
        self._rows_decide = noun == "QSTATUS" or noun in RUNNING
        self._kinds = _kinds_of(noun)
        self._selected: dict[str, str] = {}

    def command(self, name: Value, each: Callable[..., Iterable[Parameter]]) -> DisplayCommand:
        kinds = self._kinds
        keywords: list[Value] = []
        everything = False
        condition = None
        for parameter in each(*self._kinds):
            word = parameter.keyword
            if word == "WHERE":
                condition = self._condition(parameter)
            elif word == "TYPE" and parameter.values is not None and kinds and kinds[0].is_queue:
                kinds = self._type(parameter)
            elif parameter.values is not None and (selector := self._selector(word)):
                self._select(*selector, parameter)
            elif word == "ALL" and parameter.values is None:
                everything = True
            else:
                keywords += self._keyword(parameter)
        selected = tuple(self._selected.items())
        return DisplayCommand(self._noun, kinds, name, tuple(keywords), everything, condition, selected)

    def _keyword(self, parameter: Parameter) -> list[Value]:
        """What the parameter asks to see: one keyword, or none."""
        word = parameter.keyword
        keyword = self._row_keyword(word)
        if keyword and parameter.values is not None:
            self._report(parameter.at, f"{word} stands alone in DISPLAY; WHERE({word} EQ ...) selects")
        elif not keyword and any(word in kind.without_effect or word in kind.fixed for kind in self._kinds):
            self._warnings.append(f"{word}: without effect here, so it is not shown")
        elif not keyword and word in OPTIONS.get(("DEFINE", self._noun), ()):
            self._warnings.append(f"{word}: DEFINE uses it and does not keep it, so it is not shown")
        elif not keyword:
            self._report(parameter.at, self._unknown(word))
        return [Value(keyword, parameter.at)] if keyword else []

    def _row_keyword(self, word: str) -> str:
        """The keyword under which a row has it; empty when no row can."""
        if self._rows_decide:
            return word
        for kind in self._kinds:
            if attribute := kind.attribute(word):
                return attribute.keyword
            if word in (*kind.status, kind.name_keyword) or (word == "TYPE" and kind.is_queue):
                return word
        return ""

    def _unknown(self, word: str) -> str:
        owners = [owner.word for owner in kinds_with(word)]
        if owners:
            return f"{word} belongs to {listed(owners)}, not to {self._noun}"
        return no_keyword(word, self._noun, (known for kind in self._kinds for known in kind.words))

    def _type(self, parameter: Parameter) -> tuple[ObjectKind, ...]:
        everything = "QUEUE" if self._noun == "QSTATUS" else "ALL"
        words = [] if self._noun == "QSTATUS" else [kind.word for kind in self._kinds]
        asked = [value.text for value in parameter.values or ()]
        if asked == [everything]:
            return self._kinds
        if len(asked) != 1 or asked[0] not in words:
            self._report(parameter.at, f"TYPE of {self._noun} takes {listed([*words, everything])}")
        return tuple(kind for kind in self._kinds if kind.word in asked)

    def _selector(self, word: str) -> tuple[str, Form] | None:
        """The keyword whose value `word` selects by, and the form of that value."""
        if self._noun in RUNNING:
            form = RUNNING[self._noun].selectors.get(word)
            return (word, form) if form else None
        for kind in self._kinds:
            if word in kind.selectors and (attribute := kind.attribute(kind.selectors[word])):
                return attribute.keyword, attribute.form
        return None

    def _select(self, keyword: str, form: Form, parameter: Parameter) -> None:
        word = parameter.keyword
        texts = [value.text for value in parameter.values or ()]
        if len(texts) != 1:
            self._report(parameter.at, f"{word} takes one value to select by")
        elif isinstance(form, Words) and texts[0].upper() not in (*form.words, "ALL"):
            guess = suggestion(texts[0].upper(), form.words)
            self._report(parameter.at, f"{word} of {self._noun} takes {listed([*form.words, 'ALL'])}{guess}")
        elif not isinstance(form, Words):
            self._selected[keyword] = texts[0]
        elif texts[0].upper() != "ALL":
            self._selected[keyword] = texts[0].upper()

    # --- WHERE --------------------------------------------------------------------------------

    def _condition(self, parameter: Parameter) -> Condition | None:
        values = parameter.values or ()
        if len(values) != 3:
            self._report(parameter.at, "WHERE takes a keyword, an operator and a value: WHERE(CURDEPTH GT 0)")
            return None
        written, operator, operand = values
        keyword = self._row_keyword(written.text)
        if not keyword:
            self._report(written.at, self._unknown(written.text))
        if operator.text not in OPERATORS:
            self._report(operator.at, f"{shortened(operator.text)} is no operator; there are {listed(OPERATORS)}")
        text = self._operand(written.text, operator, operand)
        is_mixed = isinstance(self._form(written.text), NumberOrWord)
        return Condition(keyword, operator.text, text, written.at, operand.at, is_mixed)

    def _operand(self, word: str, operator: Value, operand: Value) -> str:
        """The operand as rows would have it.

        One that the keyword can never have is an error, for it would select
        nothing and keep silent about it.
        """
        form = self._form(word)
        generic = operator.text in ("LK", "NL")
        if isinstance(form, Integer):
            if generic:
                self._report(operator.at, f"{word} is a number: compare it with EQ, NE, LT, GT, LE or GE")
            elif not operand.text.isdecimal():
                self._report(operand.at, f"{word} is a number, {shortened(operand.text)} is none")
        elif isinstance(form, Words | Switch | NumberOrWord) and not generic:
            try:
                return str(form.show(form.parse(operand.text)))
            except InvalidValue:
                known = () if isinstance(form, Switch) else form.words
                guess = suggestion(operand.text.upper(), known)
                self._report(operand.at, f"{word} is {form.expected}, never {shortened(operand.text)}{guess}")
        return operand.text if operand.text.strip(" ") else ""

    def _form(self, word: str) -> Form:
        if self._rows_decide:
            return Form()
        if any(word in kind.status for kind in self._kinds):
            return Integer(0, COUNT_MAX)
        forms = [attribute.form for kind in self._kinds if (attribute := kind.attribute(word))]
        # Kinds differ in their words, and DISPLAY shows some that a script cannot ask for.
        shown = {text: text for form in forms if isinstance(form, Words) for text in form.meanings}
        return Words(shown) if shown else next(iter(forms), Form())


def _kinds_of(noun: str) -> tuple[ObjectKind, ...]:
    if noun in RUNNING:
        return ()
    return QUEUE_KINDS if noun == "QUEUE" else (OBJECT_KINDS["QLOCAL" if noun == "QSTATUS" else noun],)
