# SPDX-License-Identifier: Apache-2.0
"""What goes wrong where flows meet files and HTTP."""

from __future__ import annotations

from entrepot.errors.flows import NodeError


class FolderUnusable(NodeError):
    flow: str
    node: str
    folder: str
    problem: str
    code = "F20"
    retryable = True
    text = "{flow}, {node}: the folder {folder} cannot be used: {problem}"
    hint = "Make it, or give the user of the flow the right to read and write there. No file was lost."


class FileNameUnsafe(NodeError):
    flow: str
    node: str
    name: str
    problem: str
    code = "F21"
    text = "{flow}, {node}: {name!r} is no name for a file here: {problem}"
    hint = "Names that messages bring stay in the node's folder. Nothing was written."


class FileExistsAlready(NodeError):
    flow: str
    node: str
    file: str
    code = "F22"
    text = "{flow}, {node}: there is a file {file} already"
    hint = "Say existing: replace, append or archive, or another name. Nothing was written."


class RecordTooLong(NodeError):
    file: str
    record: int
    offset: int
    limit: int
    code = "F23"
    text = "{file}, record {record} at offset {offset} has more than {limit} bytes"
    hint = "Look whether the delimiter is the right one. A message has at most 100 MiB."


class RecordWrongLength(NodeError):
    flow: str
    node: str
    length: int
    limit: int
    code = "F24"
    text = "{flow}, {node}: a message of {length} bytes does not fit into records of {limit}"
    hint = "Raise record_length, or cut the message before. Nothing was written."


class FileWriteFailed(NodeError):
    flow: str
    node: str
    file: str
    problem: str
    code = "F25"
    retryable = True
    text = "{flow}, {node}: {file} cannot be written: {problem}"
    hint = "Look at the disk and at the rights on it."


class HttpClientGone(NodeError):
    flow: str
    node: str
    code = "F26"
    text = "{flow}, {node}: the client no longer waits for this reply"
    hint = "The client was answered before, or its time was up. Say ignore_transport_failures to go on all the same."


class HttpHeaderInvalid(NodeError):
    flow: str
    node: str
    name: str
    problem: str
    code = "F27"
    text = "{flow}, {node}: {name}: {problem}"
    hint = "Correct what the message tree says. Nothing was sent."


class HttpUrlInvalid(NodeError):
    flow: str
    node: str
    url: str
    problem: str
    code = "F28"
    text = "{flow}, {node}: {url!r} is no URL to send to: {problem}"
    hint = "Write http://host:port/path or https://host/path. Nothing was sent."


class HttpRequestFailed(NodeError):
    flow: str
    node: str
    url: str
    problem: str
    code = "F29"
    outcome = "unknown"
    retryable = True
    text = "{flow}, {node}: no answer from {url}: {problem}"
    hint = "Connect the failure terminal to go on without an answer. The server may have had the request."


class HttpStatusUnexpected(NodeError):
    flow: str
    node: str
    url: str
    status: int
    phrase: str
    code = "F30"
    outcome = "unknown"
    text = "{flow}, {node}: {url} has answered {status} {phrase}"
    hint = "Connect the error terminal to work with such answers."
