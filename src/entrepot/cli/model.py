# SPDX-License-Identifier: Apache-2.0
"""`entrepot model`: look at message models, and try them on messages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from entrepot.cli import output
from entrepot.cli.arguments import Json
from entrepot.errors import InvalidArgument, ModelNotFound

if TYPE_CHECKING:
    from entrepot.models.logical import MessageSet
    from entrepot.models.mrm import Codec

app = typer.Typer(help="Look at message models, and try them on messages.", no_args_is_help=True)

_UTF8 = 1208
_NATIVE = 546

Model = Annotated[
    str,
    typer.Argument(metavar="FILE", help="A .yaml, .cpy or .mxsd file, or `swift` for the models that are shipped."),
]
MessageFile = Annotated[str, typer.Argument(metavar="MESSAGE-FILE", help="The message's bytes; - is standard input.")]
Message = Annotated[str, typer.Option("--message", "-m", help="Which message; may be left out when there is one.")]
Physical = Annotated[str, typer.Option("--format", "-f", help="Which format; may be left out when there is one.")]
Ccsid = Annotated[int, typer.Option(help="Code page of the message's text.")]
Encoding = Annotated[int, typer.Option(help="Byte order of the message's numbers, as MQ counts it.")]
Out = Annotated[Path | None, typer.Option("--output", "-o", metavar="OUT", help="Write here, not to standard output.")]


@app.command()
def show(file: Model, message: Message = "", format: Physical = "", json: Json = False) -> None:  # noqa: A002
    """Draw a model: names, types, occurrences and physical properties."""
    from entrepot.cli import model_tree

    loaded = _load(file)
    messages = [_chosen(loaded, "message", message)] if message else list(loaded.messages)
    formats = [_chosen(loaded, "format", format)] if format else list(loaded.formats)
    if json:
        output.print_json(model_tree.as_json(loaded, messages, formats))
    else:
        model_tree.draw(loaded, messages, formats)


@app.command()
def parse(
    file: Model,
    message_file: MessageFile,
    message: Message = "",
    format: Physical = "",  # noqa: A002
    ccsid: Ccsid = _UTF8,
    encoding: Encoding = _NATIVE,
    json: Json = False,
) -> None:
    """Read a message by its model, and print the tree with the types of its values."""
    from entrepot.models.tree_json import tree_text, tree_to_json

    codec = _codec(_load(file), message, format)
    tree = _tree(codec.parse(_bytes(message_file), ccsid, encoding))
    if json:
        output.print_json(tree_to_json(tree))
    else:
        for line in tree_text(tree).split("\n"):
            output.say(line)


@app.command()
def render(
    file: Model,
    json_file: Annotated[str, typer.Argument(metavar="JSON-FILE", help="A tree as `parse --json` prints it; or -.")],
    message: Message = "",
    format: Physical = "",  # noqa: A002
    ccsid: Ccsid = _UTF8,
    encoding: Encoding = _NATIVE,
    out: Out = None,
) -> None:
    """Write the bytes of a tree."""
    from entrepot.models.tree_json import tree_from_json

    codec = _codec(_load(file), message, format)
    _deliver(codec.render(tree_from_json(_json(json_file)), ccsid, encoding), out)


@app.command()
def convert(
    file: Model,
    message_file: MessageFile,
    source: Annotated[str, typer.Option("--from", help="The format that the message is in.")],
    target: Annotated[str, typer.Option("--to", help="The format that it shall have.")],
    message: Message = "",
    ccsid: Ccsid = _UTF8,
    encoding: Encoding = _NATIVE,
    to_ccsid: Annotated[int | None, typer.Option(help="Code page of the result; the message's unless given.")] = None,
    to_encoding: Annotated[
        int | None, typer.Option(help="Byte order of the result; the message's unless given.")
    ] = None,
    out: Out = None,
) -> None:
    """Turn a message of one format into another format of the same model."""
    loaded = _load(file)
    reading, writing = _codec(loaded, message, source), _codec(loaded, message, target)
    tree = _tree(reading.parse(_bytes(message_file), ccsid, encoding))
    after = (ccsid if to_ccsid is None else to_ccsid, encoding if to_encoding is None else to_encoding)
    _deliver(writing.render(tree, *after), out)


@app.command()
def write(file: Model, out: Out = None, json: Json = False) -> None:
    """Write any model in our own notation."""
    from entrepot.models.notation import write_notation

    text = write_notation(_load(file))
    if json:
        output.print_json({"notation": text})
    else:
        _deliver(text.encode(), out)


# --- what the commands share ----------------------------------------------------------------------------------


def _load(file: str) -> MessageSet:
    from entrepot.models import message_sets

    return message_sets.find_set("SWIFT") if file.lower() == "swift" else message_sets.load_set(file)


def _chosen(loaded: MessageSet, what: str, name: str) -> str:
    """The message or format of that name, or the only one."""
    known = tuple(loaded.messages if what == "message" else loaded.formats)
    if not name and len(known) == 1:
        return known[0]
    if name not in known:
        if not name:
            raise InvalidArgument(f"--{what}", "the model has several", f"one of {', '.join(known[:20])}")
        raise ModelNotFound(f"{what} in set {loaded.name},", name, known)
    return name


def _codec(loaded: MessageSet, message: str, format_name: str) -> Codec:
    from entrepot.models.logical import MessageFormat
    from entrepot.models.mrm import MRM

    return MRM.codec(MessageFormat(loaded, _chosen(loaded, "message", message), _chosen(loaded, "format", format_name)))


def _tree(elements: list[Any]) -> Any:
    from entrepot.models.mrm import MRM
    from entrepot.models.tree import Folder

    folder = Folder(MRM)
    folder.fill(elements)
    return folder


def _bytes(file: str) -> bytes:
    return sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()


def _json(file: str) -> object:
    import msgspec

    try:
        return msgspec.json.decode(_bytes(file))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidArgument("JSON-FILE", str(error), "a tree as `entrepot model parse --json` prints it") from None


def _deliver(content: bytes, out: Path | None) -> None:
    """To a file, or to standard output: byte for byte, except on a terminal, which bytes could play tricks on."""
    if out is not None:
        out.write_bytes(content)
    elif sys.stdout.isatty():
        sys.stdout.write(output.safe(content.decode(errors="backslashreplace")) + "\n")
    else:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
