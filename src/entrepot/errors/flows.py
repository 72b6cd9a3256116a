# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between a message's bytes and what a flow makes of them."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class FlowError(EntrepotError):
    code = "F00"


class FlowInvalid(FlowError):
    flow: str
    mistakes: tuple[tuple[str, str, str], ...]
    """Where, what is wrong there, and what to do about it."""
    code = "F01"

    @property
    def what(self) -> str:
        count = len(self.mistakes)
        lines = (f"{where}: {problem}{'. ' + advice if advice else ''}" for where, problem, advice in self.mistakes)
        return f"{count} mistake{'s' if count > 1 else ''} in the flow {self.flow}:\n" + "\n".join(lines) + "\n"

    hint = "Nothing was deployed. `entrepot flow check` tells the same without deploying."


class NodeError(FlowError):
    """Something that a node met while a message was in it."""

    code = "F02"


class LabelNotFound(NodeError):
    flow: str
    node: str
    label: str
    known: tuple[str, ...]
    code = "F03"

    @property
    def what(self) -> str:
        named = f"there is no label {self.label!r}" if self.label else "the destination list names no label"
        return f"{self.flow}, {self.node}: {named}; there is {', '.join(sorted(self.known)) or 'none'}"

    hint = "Put the name of a Label node into LocalEnvironment.Destination.RouterList.DestinationData.labelName."


class DestinationMissing(NodeError):
    flow: str
    node: str
    problem: str
    code = "F04"
    text = "{flow}, {node}: {problem}"
    hint = "Say where the message is to go, in the node or in the message."


class RetriedTooOften(NodeError):
    queue: str
    tries: int
    code = "F05"
    text = "a message on {queue} was in {tries} units of work that were never committed"
    hint = "It may be what ends the process that works on it. Look at it with `entrepot browse`."


class NowhereToSetAside(NodeError):
    flow: str
    node: str
    queue: str
    problem: str
    code = "F06"
    retryable = True
    text = "{flow}, {node}: a message on {queue} has failed, and no terminal or queue takes it: {problem}"
    hint = "It stays on its queue. Connect the failure terminal, or set BOQNAME, or DEADQ of the queue manager."


class NodeTypeUnknown(FlowError):
    type: str
    known: tuple[str, ...]
    code = "F07"

    @property
    def what(self) -> str:
        return f"there is no node type {self.type!r}; there is {', '.join(self.known)}"

    hint = "docs/FLOWS.md tells what each does."


class FlowNotReady(FlowError):
    flow: str
    problems: tuple[str, ...]
    code = "F08"

    @property
    def what(self) -> str:
        return f"the flow {self.flow} cannot run here:\n" + "\n".join(self.problems) + "\n"

    hint = "Nothing was begun."


class FlowEnded(FlowError):
    flow: str
    problem: str
    code = "F09"
    text = "the flow {flow} does not run: {problem}"
    hint = "What it had not committed is on its queues again. `entrepot flow status` tells what runs."


class InstancesTooMany(FlowError):
    instances: int
    slots: int
    code = "F10"
    text = "{instances} instances want a task each, and Spark has {slots} slots here"
    hint = "Ask for fewer, or for more slots with --master local[N]."


class FunctionAborted(NodeError):
    function: str
    problem: str
    code = "F11"
    text = "{function} wanted to {problem}"
    hint = "A function fails its message by raising an Exception; ending the process is not for it to decide."


class FunctionTimedOut(NodeError):
    function: str
    time_s: float
    code = "F12"
    text = "{function} did not return within {time_s:g} s, and was interrupted"
    hint = "Let it do less, or raise timeout_s of its node."


class AggregationFailed(NodeError):
    flow: str
    node: str
    problem: str
    code = "F40"
    text = "{flow}, {node}: {problem}"
    hint = "Put AggregateRequest behind the output node, both behind AggregateControl; a reply names its request's id."


class StateUnreadable(NodeError):
    queue: str
    problem: str
    code = "F41"
    text = "a message on {queue} is no state that a flow has kept: {problem}"
    hint = "These queues belong to flows alone; find what else puts messages there."


class TimeoutRequestInvalid(NodeError):
    flow: str
    node: str
    field: str
    problem: str
    code = "F42"
    text = "{flow}, {node}: {field} of the timeout request {problem}"
    hint = "docs/FLOWS.md has the fields of a timeout request. No timer was set or cancelled."


class TimeoutExists(NodeError):
    flow: str
    node: str
    identifier: str
    code = "F43"
    text = "{flow}, {node}: there is a timeout request {identifier!r} already, and AllowOverwrite is FALSE"
    hint = "Cancel it, choose another Identifier, or set AllowOverwrite to TRUE."


class NotCollectable(NodeError):
    flow: str
    node: str
    problem: str
    code = "F44"
    text = "{flow}, {node}: {problem}"
    hint = "Collections hold plain messages; the correlation path must lead to one value."


class FlowTestInvalid(FlowError):
    file: str
    mistakes: tuple[tuple[str, str, str], ...]
    """Where, what is wrong there, and what to do about it."""
    code = "F50"

    @property
    def what(self) -> str:
        count = len(self.mistakes)
        lines = (f"{where}: {problem}{'. ' + advice if advice else ''}" for where, problem, advice in self.mistakes)
        return f"{count} mistake{'s' if count > 1 else ''} in the test file {self.file}:\n" + "\n".join(lines) + "\n"

    hint = "No case of it was run. examples/flows/pricing.test.yaml shows what a test file may say."


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
    text = "{path} cannot be written as {domain}: {problem}"
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
