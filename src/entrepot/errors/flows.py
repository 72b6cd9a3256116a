# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between a message's bytes and what a flow makes of them."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class FlowError(EntrepotError):
    code = "F00"


class ModelError(FlowError):
    code = "D00"


class MessageUnreadable(ModelError):
    domain: str
    path: str
    offset: int
    problem: str
    code = "D01"
    reason = 2110
    text = "this is no {domain} message: {path}, offset {offset}: {problem}"
    hint = "Look at the bytes there, and at the model they are read with. The message is left as it is."


class MessageUnwritable(ModelError):
    domain: str
    path: str
    problem: str
    code = "D02"
    text = "{domain} cannot say {path}: {problem}"
    hint = "Change the tree or the model. Nothing was written."


class MessageTooComplex(ModelError):
    domain: str
    path: str
    offset: int
    problem: str
    code = "D03"
    text = "{domain} message, {path}, offset {offset}: {problem}"
    hint = "Messages like this are more often attacks than business; raise the limit only if you know the sender."


class ModelInvalid(ModelError):
    file: str
    line: int
    column: int
    problem: str
    code = "D04"
    text = "{file}:{line}:{column}: {problem}"
    hint = "Mend the model; nothing was loaded."


class ModelNotFound(ModelError):
    kind: str
    name: str
    known: tuple[str, ...]
    code = "D05"

    @property
    def what(self) -> str:
        return f"there is no {self.kind} {self.name!r}; there is {', '.join(sorted(self.known)) or 'none'}"

    hint = "Correct the name, or load the message set that has it."


class CodePageUnknown(ModelError):
    ccsid: int
    code = "D06"
    reason = 2111
    text = "code page {ccsid} is not known"
    hint = "Set CodedCharSetId to one that docs/MODELS.md lists; 1208 is UTF-8, 500 and 37 are EBCDIC."


class ValidationFailed(ModelError):
    domain: str
    problems: tuple[str, ...]
    """Each names sequence, field and position."""
    code = "D07"

    @property
    def what(self) -> str:
        return f"the {self.domain} message breaks its rules: {'; '.join(self.problems)}"

    hint = "Ask the sender to mend it; parse without validation to look inside."
