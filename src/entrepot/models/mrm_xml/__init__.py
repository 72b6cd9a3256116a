# SPDX-License-Identifier: Apache-2.0
"""The XML physical format of the MRM: messages in XML whose tags, order and types a model says.

The tree has the message's elements, not its own tag: MRM.order.id is
<order><id>. Attributes come before elements, as elements of the tree like
all others. Readers and writers are compiled from the model once
(plan.py).
"""

from __future__ import annotations

from xml.parsers import expat

from entrepot.errors import MessageUnreadable
from entrepot.models.code_pages import codec_of
from entrepot.models.domains import find_domain
from entrepot.models.logical import MessageSet, XmlFormat
from entrepot.models.mrm_xml.plan import ILLEGAL, ElementMismatch, Node, Tags, plan_of, unsayable
from entrepot.models.tree import Element, Folder
from entrepot.models.xml.reading import COMPACT, read, recoded

_UTF8 = (0, 1208)


class XmlCodec:
    """One message of a set in one XML format."""

    def __init__(self, message_set: MessageSet, message: str, format_name: str) -> None:
        physical = message_set.formats[format_name]
        assert isinstance(physical, XmlFormat)
        model = message_set.messages[message]
        tags = Tags(message_set, format_name, physical)
        plan = plan_of(model.structure, tags)
        name = message if message[:1] == "{" or not message_set.namespace else f"{{{message_set.namespace}}}{message}"
        self._tag = name
        self._wrapper = physical.root
        self._plan = plan
        self._domain = find_domain("MRM")
        outer = tags.written(name)
        declarations = tags.declarations(nil=physical.encode_null == "nil")
        head = '<?xml version="1.0"?>' if physical.declaration else ""
        if physical.root:
            root = tags.written(physical.root)
            self._head = f"{head}<{root}{declarations}><{outer}"
            self._tail = f"</{outer}></{root}>"
        else:
            self._head = f"{head}<{outer}{declarations}"
            self._tail = f"</{outer}>"

    def parse(self, body: bytes, ccsid: int, encoding: int) -> list[Element]:
        """The elements of the message.

        Raises:
            MessageUnreadable: It is no XML, or none of this message; says path and offset.
        """
        assert self._domain is not None
        folder = Folder(self._domain, body, ccsid=ccsid, encoding=encoding)
        root = read(folder, COMPACT)
        try:
            return self._plan.read(self._message(root))
        except ElementMismatch as wrong:
            path, offset = _place(wrong, root, self._tag, recoded(folder))
            raise MessageUnreadable("MRM", path, offset, wrong.problem) from None

    def _message(self, root: Node) -> Node:
        if self._wrapper:
            if root.tag != self._wrapper:
                raise ElementMismatch(root, f"the outermost tag is {root.tag}, not {self._wrapper}")
            if len(root) != 1:
                raise ElementMismatch(root, f"{self._wrapper} has {len(root)} elements, not the message alone")
            root = root[0]
        if root.tag != self._tag:
            raise ElementMismatch(root, f"the message's tag is {root.tag}, not {self._tag}")
        return root

    def render(self, message: Element, ccsid: int, encoding: int) -> bytes:
        """The bytes of the message whose elements are the children of `message`.

        Raises:
            MessageUnwritable: The tree does not fit the model, or has characters that XML does not allow; says where.
        """
        attributes, inner = self._plan.write(message)
        text = f"{self._head}{attributes}>{inner}{self._tail}"
        if ILLEGAL.search(text):
            raise unsayable(message)
        if ccsid in _UTF8:
            return text.encode()
        # What the code page has not is written as a character reference.
        return text.encode(codec_of(ccsid, encoding), "xmlcharrefreplace")


def compile_xml(message_set: MessageSet, message: str, format_name: str) -> XmlCodec:
    """The codec of a message in an XML format.

    Raises:
        ModelInvalid: The model says something that XML cannot do.
    """
    return XmlCodec(message_set, message, format_name)


# --- where something is wrong ---------------------------------------------------------------------------------


def _place(wrong: ElementMismatch, root: Node, message_tag: str, body: bytes) -> tuple[str, int]:
    """The path of an element for people, and the offset of its tag."""
    steps: list[str] = [wrong.missing] if wrong.missing else []
    node: Node | None = wrong.node
    while node is not None and node is not root and node.tag != message_tag:
        above = node.getparent()
        twins = [] if above is None else [child for child in above if child.tag == node.tag]
        name = str(node.tag)
        steps.append(f"{name}[{twins.index(node) + 1}]" if len(twins) > 1 else name)
        node = above
    number = next(count for count, each in enumerate(root.iter()) if each is wrong.node)
    return ".".join(["MRM", *reversed(steps)]), _offset(body, number)


def _offset(body: bytes, number: int) -> int:
    """Where the tag of an element begins, by its number in the document; 0 when that cannot be told."""
    parser, found, count = expat.ParserCreate(), [0], [0]

    def start(name: str, attributes: dict[str, str]) -> None:
        del name, attributes
        if count[0] == number:
            found[0] = parser.CurrentByteIndex
        count[0] += 1

    parser.StartElementHandler = start
    try:
        parser.Parse(body, True)
    except expat.ExpatError:
        return 0
    return found[0]
