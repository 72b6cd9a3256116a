# SPDX-License-Identifier: Apache-2.0
"""The message tree: elements with a name, a kind and a typed value.

    Root ─┬ Properties
          ├ MQMD
          ├ MQRFH2
          └ XMLNSC            a Folder: bytes until it is read
              └ order ─┬ @id
                       └ item

A name is one string: `order`, or `{http://shop}order` when it has a namespace.
Values are Python's own: str CHARACTER, int INTEGER, Decimal DECIMAL, float FLOAT,
bool BOOLEAN, bytes BLOB, `Bits` BIT, date DATE, time and datetime TIME and
TIMESTAMP (GMTTIME and GMTTIMESTAMP when they know their zone), `Interval`
INTERVAL, and None for NULL.

Children may be loaded late: `_children` is None until first access, and
`load` brings them. Every change tells the folder above, so that a folder
that did not change is rendered as the bytes it came from
(docs/decisions/0016-message-tree.md says why the tree has this shape).
`compiled/element.pyx` has the same classes for a C compiler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from entrepot.compiled import compiled
from entrepot.errors.flows import MessageTooComplex
from entrepot.models.element_types import NAME, translate
from entrepot.models.tree_state import COPIES, INDEX_FROM, LEVELS_MAX, STRUCTURE

if TYPE_CHECKING:
    from entrepot.models.domains import Domain


class Element:
    """One place in the tree."""

    __slots__ = ("_children", "_has_changed", "_index", "key", "kind", "parent", "value")

    def __init__(self, key: str, value: Any = None, kind: int = NAME) -> None:
        self.key = key
        self.value = value
        self.kind = kind
        self.parent: Element | None = None
        self._children: list[Element] | None = None
        self._index: dict[str, list[Element]] | None = None
        self._has_changed = False
        """Something here or below has changed, and all above know; else it is as it came."""

    # --- what it is called ------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name without its namespace."""
        key = self.key
        # find, not index: JSON and programs may have a name that only begins like a namespace.
        return key[key.find("}") + 1 :] if key[:1] == "{" else key

    @property
    def namespace(self) -> str:
        key = self.key
        return key[1 : max(key.find("}"), 1)] if key[:1] == "{" else ""

    def rename(self, key: str) -> None:
        parent = self.parent
        if parent is not None:
            # A level that is not there yet would look for this element under its old name.
            if parent._children is None:
                parent.load()
            parent._index = None
        self.key = key
        STRUCTURE[0] += 1
        self.changed(structure=True)

    def set_value(self, value: Any) -> None:
        self.value = value
        self.changed()

    def set_kind(self, kind: int) -> None:
        self.kind = kind
        self.changed(structure=True)

    def changed(self, *, structure: bool = False) -> None:
        """Tell the folder above that its bytes no longer say what the tree says."""
        above: Element | None = self
        folder: Element | None = None
        levels = LEVELS_MAX
        while above is not None and not above._has_changed:
            levels -= 1
            if type(above) is Folder:
                folder = above
                above.dirty = True
                if structure:
                    above.restructured = True
                elif above.touched is None:
                    above.touched = {self: None}
                else:
                    above.touched[self] = None
            above = above.parent
        if levels < 0:
            raise MessageTooComplex("tree", self.name, 0, f"it lies deeper than {LEVELS_MAX} levels")
        # Without a folder above nothing is notified, and there may be one later. And beside what is new a value
        # counts as much as an element: an element that is not notified is written as it came.
        if above is not None or (structure and folder is not None):
            last = above if above is not None else folder
            node: Element | None = self
            while node is not None and node is not last:
                node._has_changed = True
                node = node.parent
            if node is not None:
                node._has_changed = True

    # --- children ----------------------------------------------------------------------------

    def load(self) -> list[Element]:
        """Bring the children that were left for later; here there are none."""
        self._children = []
        return self._children

    @property
    def children(self) -> list[Element]:
        """All children in order; to be read only."""
        children = self._children
        return self.load() if children is None else children

    def __iter__(self) -> Iterator[Element]:
        return iter(self.children)

    def is_leaf(self) -> bool:
        """Whether it has no children, without making those that were left for later."""
        return not self._children

    def _named(self) -> dict[str, list[Element]]:
        index = self._index
        if index is None:
            index = {}
            for child in self.children:
                key = child.key
                named = index.get(key)
                if named is None:
                    index[key] = [child]
                else:
                    named.append(child)
            self._index = index
        return index

    def first(self, key: str) -> Element | None:
        """The first child of that name."""
        children = self._children
        if children is None:
            children = self.load()
        if len(children) < INDEX_FROM:
            for child in children:
                if child.key == key:
                    return child
            return None
        named = (self._index or self._named()).get(key)
        return named[0] if named else None

    def all(self, key: str) -> list[Element]:
        """The children of that name, in order; to be read only."""
        children = self._children
        if children is None:
            children = self.load()
        if len(children) < INDEX_FROM:
            return [child for child in children if child.key == key]
        return (self._index or self._named()).get(key, [])

    def get(self, *keys: str) -> Any:
        """The value below a path of names; None when there is none. For Python, not for ESQL."""
        element: Element | None = self
        for key in keys:
            if element is None:
                return None
            element = element.first(key)
        return None if element is None else element.value

    def new_child(self, key: str, kind: int = NAME) -> Element:
        """A child of the right class, not yet attached."""
        del self
        return Element(key, None, kind)

    def append(self, child: Element) -> Element:
        """Attach as the last child; gives it back."""
        children = self._children
        if children is None:
            children = self.load()
        child.parent = self
        children.append(child)
        index = self._index
        if index is not None:
            named = index.get(child.key)
            if named is None:
                index[child.key] = [child]
            else:
                named.append(child)
        if not self._has_changed:
            self.changed(structure=True)
        return child

    def add(self, key: str, value: Any = None, kind: int = NAME) -> Element:
        """A new last child."""
        child = self.new_child(key, kind)
        child.value = value
        return self.append(child)

    def insert(self, position: int, child: Element) -> Element:
        child.parent = self
        self.children.insert(position, child)
        STRUCTURE[0] += 1
        self._index = None
        self.changed(structure=True)
        return child

    def remove(self, child: Element) -> None:
        """Take a child out; it becomes a tree of its own."""
        self.changed(structure=True)
        del self.children[self.position(child)]
        STRUCTURE[0] += 1
        self._index = None
        child.parent = None
        # Alone it has no folder to notify of changes, so it never counts as unchanged.
        child._has_changed = True

    def clear(self) -> None:
        """Take all children out."""
        # What was never loaded need not be loaded to be taken out.
        if self._children or (self._children is None and type(self) is not Element):
            STRUCTURE[0] += 1
        self.changed(structure=True)
        for child in self._children or ():
            child.parent = None
            child._has_changed = True
        self._children = []
        self._index = None

    def position(self, child: Element, guess: int = 0) -> int:
        """Where a child stands; `guess` makes walking along quick."""
        children = self.children
        if guess < len(children) and children[guess] is child:
            return guess
        for position, candidate in enumerate(children):
            if candidate is child:
                return position
        raise ValueError(f"{child.key} is no child of {self.key}")

    def fill(self, children: Iterable[Element]) -> list[Element]:
        """Give an element that was not loaded yet its children. This is no change: it was in the bytes."""
        loaded = list(children)
        for child in loaded:
            child.parent = self
        self._children = loaded
        self._index = None
        return loaded

    # --- copies and places ---------------------------------------------------------------------

    def copy(self) -> Element:
        """The same again, as a tree of its own."""
        twin = self._twin()
        children = self._children
        if children is None:
            children = self.load()
        if children:
            _copy_children(children, twin)
        return twin

    def _twin(self) -> Element:
        return Element(self.key, self.value, self.kind)

    def replace_content(self, source: Element) -> None:
        """Take over value and children of another tree, as a copy; the own name stays.

        Kinds are translated when the other tree lies in another domain, so that
        an attribute stays an attribute.
        """
        children = copy_all(source.children)
        here, there = self.domain_name(), source.domain_name()
        if here and there and here != there:
            for child in children:
                _translate(child, there, here)
        self.clear()
        self.value = source.value
        self.fill(children)
        self.changed(structure=True)

    def folder(self) -> Folder | None:
        """The nearest folder at or above this element."""
        above: Element | None = self
        while above is not None and not isinstance(above, Folder):
            above = above.parent
        return above

    def domain_name(self) -> str:
        folder = self.folder()
        return "" if folder is None else folder.domain.name

    def path(self) -> str:
        """Where it is, for people: Root.XMLNSC.order.item[2]."""
        steps: list[str] = []
        element: Element | None = self
        while element is not None:
            step = element.key or "*"
            if element.parent is not None:
                twins = [child for child in element.parent.children if child.key == element.key]
                if len(twins) > 1:
                    step += f"[{next(n for n, twin in enumerate(twins, 1) if twin is element)}]"
            steps.append(step)
            element = element.parent
        return ".".join(reversed(steps))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.key} {self.value!r} {len(self._children or ())} children>"


def copy_all(children: list[Element]) -> list[Element]:
    """Each of them again, as a tree of its own; what a program copies is paid from its budget."""
    COPIES.left -= len(children)
    if COPIES.left < 0:
        COPIES.spent()
    return [child.copy() for child in children]


def _copy_children(children: list[Element], twin: Element) -> None:
    COPIES.left -= len(children)
    if COPIES.left < 0:
        COPIES.spent()
    copies: list[Element] = []
    # A loop, because a comprehension is a frame of its own, and Python counts frames.
    for child in children:
        copied = child.copy()
        copied.parent = twin
        copies.append(copied)
    twin._children = copies


def _translate(element: Element, source: str, target: str) -> None:
    element.kind = translate(element.kind, source, target)
    for child in element.children:
        _translate(child, source, target)


class Folder(Element):
    """The root of what one parser owns: bytes, and a tree from the first access on."""

    # No slots: several folders are made for each message, and most of this stays as it is here.
    ccsid = 1208
    encoding = 546
    model: Any = None
    """What the domain needs to know beside the bytes: message set, type and format of an MRM message."""
    dirty = False
    """The tree says something else than `body`."""
    restructured = False
    """Elements came or went; otherwise only values changed."""
    touched: dict[Element, None] | None = None
    """Whose values changed, for domains that write only those anew."""
    peeked: Any = None
    """What the domain learned from the beginning of the body without reading all of it."""

    def __init__(
        self,
        domain: Domain,
        body: bytes | None = None,
        *,
        key: str = "",
        ccsid: int = 1208,
        encoding: int = 546,
        model: Any = None,
    ) -> None:
        # Not through Element.__init__, for the same reason.
        self.key = key or domain.name
        self.value = None
        self.kind = NAME
        self.parent = None
        self._children = None
        self._index = None
        self._has_changed = False
        self.domain = domain
        self.body = body
        if ccsid != 1208:
            self.ccsid = ccsid
        if encoding != 546:
            self.encoding = encoding
        if model is not None:
            self.model = model
        if body is None:
            self.dirty = self.restructured = True

    def is_leaf(self) -> bool:
        return not self.children

    def load(self) -> list[Element]:
        """Parse the body.

        Raises:
            MessageUnreadable: The body is none of this domain; says where.
        """
        self._children = []
        if self.body is not None:
            try:
                self.domain.parse(self)
            except BaseException:
                self._children = None
                raise
        return self._children

    def peek(self, keys: tuple[str, ...]) -> tuple[bool, Any]:
        """(known, value) of a first-child path without parsing all of the body, when the domain can."""
        if self._children is None and self.body is not None:
            return self.domain.peek(self, keys)
        return False, None

    def render(self) -> bytes:
        """The bytes of this folder: as they came when nothing changed.

        Raises:
            MessageUnwritable: The tree has something that the domain cannot express.
        """
        # Only bytes proper are an answer: a folder made from a descriptor holds a kind of its own for "elsewhere".
        if not self.dirty and type(self.body) is bytes:
            return self.body
        return self.domain.render(self)

    def replace_content(self, source: Element) -> None:
        if (
            isinstance(source, Folder)
            and source.domain is self.domain
            and source.body is not None
            and not source.dirty
            and source is not self
        ):
            # As in `copy`: the same bytes give the same tree, on first access.
            self.clear()
            self.body, self.ccsid, self.encoding, self.model = source.body, source.ccsid, source.encoding, source.model
            self.value = source.value
            self._children = self.peeked = self.touched = None
            self.dirty = self.restructured = self._has_changed = False
            return
        super().replace_content(source)

    def copy(self) -> Folder:
        if self.body is not None and not self.dirty:
            # Reading the bytes again costs no more than copying the elements, and most copies are never read.
            return self._twin()
        twin = self._twin()
        _copy_children(self.children, twin)
        twin.dirty = twin.restructured = True
        return twin

    def _twin(self) -> Folder:
        body = None if self.dirty else self.body
        twin = Folder(self.domain, body, key=self.key, ccsid=self.ccsid, encoding=self.encoding, model=self.model)
        twin.value = self.value
        return twin


class Unread(Protocol):
    """A message whose folders are not made yet."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The names of its folders, in order; all different."""

    def folder(self, key: str) -> Folder:
        """One of them alone."""


class Root(Element):
    """Root of a message; its children are folders where their names are those of domains.

    Most programs look at the body and take the headers along, so a root may hold a message instead of folders: then
    each folder is made when it is asked for by name, and all of them when something else is asked.
    """

    __slots__ = ("opened", "unread")

    def __init__(self, key: str = "Root", unread: Unread | None = None) -> None:
        super().__init__(key)
        self.unread = unread
        self.opened: dict[str, Folder] | None = None
        """The folders that were asked for, while the others are not made."""

    def first(self, key: str) -> Element | None:
        unread = self.unread
        if unread is None:
            return Element.first(self, key)
        opened = self.opened
        if opened is None:
            opened = self.opened = {}
        folder = opened.get(key)
        if folder is None:
            if key not in unread.keys:
                return None
            folder = opened[key] = unread.folder(key)
            folder.parent = self
        return folder

    def load(self) -> list[Element]:
        unread, self.unread = self.unread, None
        if unread is None:
            return Element.load(self)
        opened, self.opened = self.opened or {}, None
        return self.fill([opened.get(key) or unread.folder(key) for key in unread.keys])

    def is_leaf(self) -> bool:
        return not self.children

    def clear(self) -> None:
        self.unread = self.opened = None
        if self._children is None:
            self._children = []
            STRUCTURE[0] += 1
        Element.clear(self)

    def replace_content(self, source: Element) -> None:
        if isinstance(source, Root) and source.is_unchanged():
            if self.unread is not None or self._children:
                self.clear()
            self.unread = source.unread
            self._children = None
        else:
            copies = [child.copy() for child in source.children]
            self.clear()
            self.fill(copies)
        self.changed(structure=True)

    def is_unchanged(self) -> bool:
        """It still holds its message, and no folder was changed."""
        if self.unread is None:
            return False
        opened = self.opened
        return not opened or not any(folder.dirty for folder in opened.values())

    def new_child(self, key: str, kind: int = NAME) -> Element:
        from entrepot.models.domains import find_domain

        domain = find_domain(key)
        return Element(key, None, kind) if domain is None else Folder(domain)

    def copy(self) -> Root:
        if self.is_unchanged():
            return Root(self.key, self.unread)
        twin = Root(self.key)
        twin.value = self.value
        twin.fill([child.copy() for child in self.children])
        return twin


if not TYPE_CHECKING and (_element := compiled("element")) is not None:
    _element.share(NAME, STRUCTURE, COPIES, INDEX_FROM, LEVELS_MAX, translate, MessageTooComplex)
    Element, Folder, Root, copy_all = _element.Element, _element.Folder, _element.Root, _element.copy_all


class Assembly:
    """The four trees that travel through a flow together.

    Most messages need only the first, so the others are made on first access. The environment is one for a whole
    flow: an assembly that is made from another one takes it over.
    """

    __slots__ = ("_environment", "_exception_list", "_local_environment", "root")

    def __init__(
        self,
        root: Root | None = None,
        environment: Element | None = None,
        local_environment: Element | None = None,
        exception_list: Element | None = None,
    ) -> None:
        self.root = root or Root()
        self._environment = environment
        self._local_environment = local_environment
        self._exception_list = exception_list

    @property
    def environment(self) -> Element:
        if self._environment is None:
            self._environment = Root("Environment")
        return self._environment

    @property
    def local_environment(self) -> Element:
        if self._local_environment is None:
            self._local_environment = Root("LocalEnvironment")
        return self._local_environment

    @local_environment.setter
    def local_environment(self, tree: Element) -> None:
        self._local_environment = tree

    @property
    def exception_list(self) -> Element:
        if self._exception_list is None:
            self._exception_list = Element("ExceptionList")
        return self._exception_list

    @exception_list.setter
    def exception_list(self, tree: Element) -> None:
        self._exception_list = tree
