# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, initializedcheck=False
"""Elements of a message tree as structures of C; models/tree.py has their twins, and says what they promise.

Python's classes of elements (JSON, SWIFT, lxml's) inherit from these as they do from the twins. `tape.pyx` adds
elements that stand for a place in the bytes of a message.
"""

cimport cython

# models/tree.py hands these over. Nothing of the package is imported here, because its import would ask for this module.
cdef object UNREAD = object()
cdef object NAME = None
cdef list STRUCTURE = None
cdef object COPIES = None
cdef Py_ssize_t INDEX_FROM = 0
cdef int LEVELS_MAX = 0
cdef object translate = None
cdef object too_complex = None
cdef object find_domain = None


def share(name, structure, copies, Py_ssize_t index_from, int levels_max, translation, error):
    """Take over what trees of both forms have in common."""
    global NAME, STRUCTURE, COPIES, INDEX_FROM, LEVELS_MAX, translate, too_complex
    NAME, STRUCTURE, COPIES, INDEX_FROM, LEVELS_MAX = name, structure, copies, index_from, levels_max
    translate, too_complex = translation, error


cdef extern from "Python.h":
    int enter_recursion "Py_EnterRecursiveCall"(const char* where) except -1
    void leave_recursion "Py_LeaveRecursiveCall"()
    bint has_feature "PyType_HasFeature"(type, unsigned long)
    unsigned long HEAP_TYPE "Py_TPFLAGS_HEAPTYPE"


cdef inline bint is_of_python(Element element):
    return has_feature(type(element), HEAP_TYPE)


cdef int note_structure() except -1:
    STRUCTURE[0] = STRUCTURE[0] + 1
    return 0


cdef int charge_copies(Py_ssize_t count) except -1:
    left = COPIES.left - count
    COPIES.left = left
    if left < 0:
        COPIES.spent()
    return 0


cdef inline list loaded(Element element):
    return element.load() if element._children is None else element._children


cdef inline object value_of(Element element):
    if element.held is UNREAD:
        return element.read_value()
    # A class of Python's may have a property of its own.
    return element.value if is_of_python(element) else element.held


@cython.trashcan(True)
@cython.freelist(1024)
cdef class Element:
    """One place in the tree."""

    def __init__(self, key, value=None, kind=None):
        self.key = key
        self.held = value
        self.kind = NAME if kind is None else kind

    @property
    def value(self):
        if self.held is UNREAD:
            return self.read_value()
        return self.held

    @value.setter
    def value(self, value):
        self.held = value

    cdef object read_value(self):
        return None

    # --- what it is called ------------------------------------------------------------------

    @property
    def name(self):
        """The name without its namespace."""
        key = self.key
        # find, not index: JSON and programs may have a name that only begins like a namespace.
        return key[key.find("}") + 1 :] if key[:1] == "{" else key

    @property
    def namespace(self):
        key = self.key
        return key[1 : max(key.find("}"), 1)] if key[:1] == "{" else ""

    def rename(self, key):
        if self.parent is not None:
            # A level that is not there yet would look for this element under its old name.
            loaded(self.parent)
            self.parent._index = None
        self.key = key
        note_structure()
        self.mark(True)

    cpdef set_value(self, value):
        self.value = value
        self.mark(False)

    def set_kind(self, kind):
        self.kind = kind
        self.mark(True)

    def changed(self, *, structure=False):
        """Tell the folder above that its bytes no longer say what the tree says."""
        self.mark(structure)

    cdef int mark(self, bint structure) except -1:
        cdef Element above = self
        cdef Folder folder = None
        cdef Element last
        cdef Element node
        cdef int levels = LEVELS_MAX
        while above is not None and not above._has_changed:
            levels -= 1
            if type(above) is Folder:
                folder = <Folder>above
                folder.dirty = True
                if structure:
                    folder.restructured = True
                elif folder.touched is None:
                    folder.touched = {self: None}
                else:
                    folder.touched[self] = None
            above = above.parent
        if levels < 0:
            raise too_complex("tree", self.name, 0, f"it lies deeper than {LEVELS_MAX} levels")
        # Without a folder above nothing is notified, and there may be one later. And beside what is new a value
        # counts as much as an element: an element that is not notified is written as it came.
        if above is not None or (structure and folder is not None):
            last = above if above is not None else folder
            node = self
            while node is not None and node is not last:
                node._has_changed = True
                node = node.parent
            if node is not None:
                node._has_changed = True
        return 0

    # --- children ----------------------------------------------------------------------------

    cpdef list load(self):
        """Bring the children that were left for later; here there are none."""
        self._children = []
        return self._children

    @property
    def children(self):
        """All children in order; to be read only."""
        return self.load() if self._children is None else self._children

    def __iter__(self):
        return iter(loaded(self))

    cpdef is_leaf(self):
        """Whether it has no children, without making those that were left for later."""
        return not self._children

    cdef dict named(self):
        cdef dict index = self._index
        cdef Element child
        cdef list named
        if index is None:
            index = {}
            for child in loaded(self):
                named = index.get(child.key)
                if named is None:
                    index[child.key] = [child]
                else:
                    named.append(child)
            self._index = index
        return index

    cpdef Element first(self, key):
        """The first child of that name."""
        cdef list children = loaded(self)
        cdef Element child
        if len(children) < INDEX_FROM:
            for child in children:
                if child.key is key or child.key == key:
                    return child
            return None
        cdef list named = self.named().get(key)
        return <Element>named[0] if named else None

    cpdef list all(self, key):
        """The children of that name, in order; to be read only."""
        cdef list children = loaded(self)
        cdef list named
        cdef Element child
        if len(children) < INDEX_FROM:
            named = []
            for child in children:
                if child.key is key or child.key == key:
                    named.append(child)
            return named
        named = self.named().get(key)
        return [] if named is None else named

    def get(self, *keys):
        """The value below a path of names; None when there is none. For Python, not for ESQL."""
        cdef Element element = self
        for key in keys:
            if element is None:
                return None
            element = element.first(key)
        return None if element is None else value_of(element)

    cpdef Element new_child(self, key, kind=None):
        """A child of the right class, not yet attached."""
        cdef Element child = new_element(key, None)
        if kind is not None:
            child.kind = kind
        return child

    cpdef Element append(self, Element child):
        """Attach as the last child; gives it back."""
        cdef list children = loaded(self)
        cdef list named
        child.parent = self
        children.append(child)
        if self._index is not None:
            named = self._index.get(child.key)
            if named is None:
                self._index[child.key] = [child]
            else:
                named.append(child)
        if not self._has_changed:
            self.mark(True)
        return child

    def add(self, key, value=None, kind=None):
        """A new last child."""
        cdef Element child = self.new_child(key, kind)
        child.value = value
        return self.append(child)

    def insert(self, position, Element child):
        child.parent = self
        loaded(self).insert(position, child)
        note_structure()
        self._index = None
        self.mark(True)
        return child

    def remove(self, Element child):
        """Take a child out; it becomes a tree of its own."""
        self.mark(True)
        del loaded(self)[self.position(child)]
        note_structure()
        self._index = None
        child.parent = None
        # Alone it has no folder to notify of changes, so it never counts as unchanged.
        child._has_changed = True

    cpdef clear(self):
        """Take all children out."""
        cdef Element child
        # What was never loaded need not be loaded to be taken out.
        if self._children or (self._children is None and type(self) is not Element):
            note_structure()
        self.mark(True)
        if self._children is not None:
            for child in self._children:
                child.parent = None
                child._has_changed = True
        self._children = []
        self._index = None

    def position(self, Element child, Py_ssize_t guess=0):
        """Where a child stands; `guess` makes walking along quick."""
        cdef list children = loaded(self)
        cdef Py_ssize_t position
        if 0 <= guess < len(children) and children[guess] is child:
            return guess
        for position in range(len(children)):
            if children[position] is child:
                return position
        raise ValueError(f"{child.key} is no child of {self.key}")

    def fill(self, children):
        """Give an element that was not loaded yet its children. This is no change: it was in the bytes."""
        cdef list filled = list(children)
        cdef Element child
        for child in filled:
            child.parent = self
        self._children = filled
        self._index = None
        return filled

    # --- copies and places ---------------------------------------------------------------------

    cpdef Element copy(self):
        """The same again, as a tree of its own."""
        cdef Element twin = self._twin()
        copy_children(loaded(self), twin)
        return twin

    cpdef Element _twin(self):
        cdef Element twin = new_element(self.key, value_of(self))
        twin.kind = self.kind
        return twin

    cpdef replace_content(self, Element source):
        """Take over value and children of another tree, as a copy; the own name stays.

        Kinds are translated when the other tree lies in another domain, so that
        an attribute stays an attribute.
        """
        cdef list children = copies_of(loaded(source))
        cdef Element child
        here, there = self.domain_name(), source.domain_name()
        if here and there and here != there:
            for child in children:
                translate_kinds(child, there, here)
        # Before clearing, because the source may lie below.
        value = value_of(source)
        self.clear()
        self.value = value
        self.fill(children)
        self.mark(True)

    def folder(self):
        """The nearest folder at or above this element."""
        cdef Element above = self
        while above is not None and not isinstance(above, Folder):
            above = above.parent
        return above

    def domain_name(self):
        folder = self.folder()
        return "" if folder is None else folder.domain.name

    def path(self):
        """Where it is, for people: Root.XMLNSC.order.item[2]."""
        steps = []
        element = self
        while element is not None:
            step = element.key or "*"
            if element.parent is not None:
                twins = [child for child in element.parent.children if child.key == element.key]
                if len(twins) > 1:
                    for number, twin in enumerate(twins, 1):
                        if twin is element:
                            step += f"[{number}]"
                            break
            steps.append(step)
            element = element.parent
        return ".".join(reversed(steps))

    def __repr__(self):
        return f"<{type(self).__name__} {self.key} {self.value!r} {len(self._children or ())} children>"

    def __reduce__(self):
        raise TypeError(f"cannot pickle {type(self).__name__!r}: send the message's bytes")


cdef inline Element new_element(key, value):
    cdef Element element = Element.__new__(Element)
    element.key = key
    element.held = value
    element.kind = NAME
    return element


def copy_all(list children):
    """Each of them again, as a tree of its own; what a program copies is paid from its budget."""
    return copies_of(children)


cdef list copies_of(list children):
    cdef Element child
    cdef list copies = []
    charge_copies(len(children))
    for child in children:
        copies.append(child.copy())
    return copies


cdef int copy_children(list children, Element twin) except -1:
    cdef Element child
    cdef Element copied
    cdef list copies
    if children:
        charge_copies(len(children))
        copies = []
        enter_recursion(" while copying a tree")
        try:
            for child in children:
                copied = child.copy()
                copied.parent = twin
                copies.append(copied)
        finally:
            leave_recursion()
        twin._children = copies
    return 0


cdef int translate_kinds(Element element, source, target) except -1:
    cdef Element child
    element.kind = translate(element.kind, source, target)
    enter_recursion(" while translating a tree")
    try:
        for child in loaded(element):
            translate_kinds(child, source, target)
    finally:
        leave_recursion()
    return 0


cdef class Folder(Element):
    """The root of what one parser owns: bytes, and a tree from the first access on."""

    def __init__(self, domain, body=None, *, key="", ccsid=1208, encoding=546, model=None):
        self.key = key or domain.name
        self.kind = NAME
        self.domain = domain
        self.body = body
        self.ccsid = ccsid
        self.encoding = encoding
        self.model = model
        if body is None:
            self.dirty = self.restructured = True

    cpdef is_leaf(self):
        return not loaded(self)

    cpdef list load(self):
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

    def peek(self, keys):
        """(known, value) of a first-child path without parsing all of the body, when the domain can."""
        if self._children is None and self.body is not None:
            return self.domain.peek(self, keys)
        return False, None

    def render(self):
        """The bytes of this folder: as they came when nothing changed.

        Raises:
            MessageUnwritable: The tree has something that the domain cannot express.
        """
        # Only bytes proper are an answer: a folder made from a descriptor holds a kind of its own for "elsewhere".
        if not self.dirty and type(self.body) is bytes:
            return self.body
        return self.domain.render(self)

    cpdef replace_content(self, Element source):
        cdef Folder other
        if isinstance(source, Folder):
            other = <Folder>source
            if other.domain is self.domain and other.body is not None and not other.dirty and other is not self:
                # As in `copy`: the same bytes give the same tree, on first access.
                self.clear()
                self.body, self.ccsid, self.encoding, self.model = other.body, other.ccsid, other.encoding, other.model
                self.value = value_of(other)
                self._children = None
                self.peeked = None
                self.touched = None
                self.dirty = self.restructured = self._has_changed = False
                return
        Element.replace_content(self, source)

    cpdef Element copy(self):
        cdef Folder twin = <Folder>self._twin()
        if self.body is not None and not self.dirty:
            # Reading the bytes again costs no more than copying the elements, and most copies are never read.
            return twin
        copy_children(loaded(self), twin)
        twin.dirty = twin.restructured = True
        return twin

    cpdef Element _twin(self):
        cdef Folder twin = Folder.__new__(Folder)
        twin.key = self.key
        twin.kind = NAME
        twin.held = value_of(self)
        twin.domain = self.domain
        twin.ccsid = self.ccsid
        twin.encoding = self.encoding
        twin.model = self.model
        if self.dirty or self.body is None:
            twin.dirty = twin.restructured = True
        else:
            twin.body = self.body
        return twin


cdef class Root(Element):
    """Root of a message; its children are folders where their names are those of domains."""

    def __init__(self, key="Root", unread=None):
        self.key = key
        self.kind = NAME
        self.unread = unread

    cpdef Element first(self, key):
        cdef Folder folder
        if self.unread is None:
            return Element.first(self, key)
        if self.opened is None:
            self.opened = {}
        folder = self.opened.get(key)
        if folder is None:
            if key not in self.unread.keys:
                return None
            folder = self.unread.folder(key)
            self.opened[key] = folder
            folder.parent = self
        return folder

    cpdef list load(self):
        unread, self.unread = self.unread, None
        if unread is None:
            return Element.load(self)
        opened = self.opened or {}
        self.opened = None
        return self.fill([opened.get(key) or unread.folder(key) for key in unread.keys])

    cpdef is_leaf(self):
        return not loaded(self)

    cpdef clear(self):
        self.unread = None
        self.opened = None
        if self._children is None:
            self._children = []
            note_structure()
        Element.clear(self)

    cpdef replace_content(self, Element source):
        cdef Element child
        if isinstance(source, Root) and source.is_unchanged():
            if self.unread is not None or self._children:
                self.clear()
            self.unread = (<Root>source).unread
            self._children = None
        else:
            copies = [child.copy() for child in loaded(source)]
            self.clear()
            self.fill(copies)
        self.mark(True)

    def is_unchanged(self):
        """It still holds its message, and no folder was changed."""
        cdef Folder folder
        if self.unread is None:
            return False
        if self.opened:
            for folder in self.opened.values():
                if folder.dirty:
                    return False
        return True

    cpdef Element new_child(self, key, kind=None):
        global find_domain
        if find_domain is None:
            from entrepot.models.domains import find_domain
        domain = find_domain(key)
        return Element(key, None, kind) if domain is None else Folder(domain)

    cpdef Element copy(self):
        cdef Root twin
        cdef Element child
        if self.is_unchanged():
            return Root(self.key, self.unread)
        twin = Root(self.key)
        twin.value = value_of(self)
        twin.fill([child.copy() for child in loaded(self)])
        return twin
