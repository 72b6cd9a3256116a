# SPDX-License-Identifier: Apache-2.0
"""Field references at run time: finding elements, making them, giving them values.

Compiled programs call these. A path is walked from an element that the
program has in hand; what is not there is None, never an error. `make_...`
creates what is missing, as SET and CREATE FIELD do. A pattern is what a step
with `*`, `*:name`, `(kind)` or an unknown namespace looks for.
"""

from __future__ import annotations

from typing import Any

from entrepot.errors import EsqlRunError
from entrepot.models import element_types as kinds_of
from entrepot.models.tree import Element, Folder, Root
from entrepot.models.tree_state import COPIES, STRUCTURE

Pattern = tuple[str | None, str | None, tuple[int, ...]]
"""Namespace, name, kinds; None for any of the first two, no kinds for any kind."""


# --- finding ----------------------------------------------------------------------------------------


def walk(element: Element | None, keys: tuple[str, ...]) -> Element | None:
    """Along the first children of these names."""
    for key in keys:
        if element is None:
            return None
        element = element.first(key)
    return element


def find_from(site: list[Any], root: Element, keys: tuple[str, ...]) -> Element | None:
    """`walk`, remembering the end of the path at this site of the program until the structure changes."""
    found = walk(root, keys)
    if found is not None:
        site[1] = found
        site[0] = STRUCTURE[0]
    return found


def make_from(site: list[Any], root: Element, keys: tuple[str, ...]) -> Element:
    """`make`, remembered likewise."""
    found = make(root, keys)
    site[1] = found
    site[0] = STRUCTURE[0]
    return found


def find_nth_from(site: list[Any], element: Element | None, key: str, number: Any) -> Element | None:
    """`nth`, remembered until the structure or the number changes."""
    found = nth(element, key, number)
    if found is not None:
        site[:] = (STRUCTURE[0], found, number)
    return found


def make_nth_from(site: list[Any], element: Element, key: str, number: Any) -> Element:
    found = make_nth(element, key, number)
    site[:] = (STRUCTURE[0], found, number)
    return found


def read(element: Element | None, keys: tuple[str, ...]) -> Any:
    """The value at the end of `walk`."""
    for key in keys:
        if element is None:
            return None
        element = element.first(key)
    return None if element is None else element.value


def read_below(root: Element, keys: tuple[str, ...]) -> Any:
    """`read` from a message's root, where the folder may tell without being parsed as a whole."""
    folder = root.first(keys[0])
    if type(folder) is Folder and folder._children is None:
        known, value = folder.peek(keys[1:])
        if known:
            return value
    return read(folder, keys[1:])


def read_from(site: list[Any], root: Element, keys: tuple[str, ...], last: str) -> Any:
    """`read_below` of a path whose beginning is remembered once it had to be walked."""
    folder = root.first(keys[0])
    if type(folder) is Folder and folder._children is None:
        known, value = folder.peek((*keys[1:], last))
        if known:
            return value
    return read(find_from(site, root, keys), (last,))


def value_of(element: Element | None) -> Any:
    return None if element is None else element.value


def nth(element: Element | None, key: str, number: Any) -> Element | None:
    """name[number]."""
    if element is None or number is None:
        return None
    found = element.all(key)
    if type(number) is int and 1 <= number <= len(found):
        return found[number - 1]
    _require_index(number)
    return None


def pick(found: list[Element], form: str, number: Any) -> Element | None:
    """One of many: [number], [>number] from the first, [<number] from the last."""
    if number is None:
        return None
    if type(number) is not int or not 1 <= number <= len(found):
        _require_index(number)
        return None
    return found[-number] if form == "from_last" else found[number - 1]


def _require_index(number: Any) -> None:
    if type(number) is not int:
        raise EsqlRunError(f"an index is an INTEGER, not {number!r}", number=2433)
    if number < 1:
        raise EsqlRunError(f"an index is at least 1, not {number}", number=2433)


def named(element: Element | None, key: str) -> list[Element]:
    """name[]: all children of that name."""
    return [] if element is None else element.all(key)


def every(element: Element | None) -> list[Element]:
    """*[]: all children."""
    return [] if element is None else element.children


def matching(element: Element | None, pattern: Pattern) -> list[Element]:
    """The children that a pattern describes."""
    if element is None:
        return []
    namespace, name, kinds = pattern
    found = element.children
    if name is not None:
        if namespace is not None:
            found = element.all(key_of(namespace, name))
        else:
            found = [child for child in found if child.name == name]
    elif namespace is not None:
        found = [child for child in found if child.namespace == namespace]
    if kinds:
        found = [child for child in found if any(kind_matches(child, kind) for kind in kinds)]
    return found


def first_matching(element: Element | None, pattern: Pattern) -> Element | None:
    found = matching(element, pattern)
    return found[0] if found else None


def find_kind(element: Element | None, key: str, kind: int) -> Element | None:
    """`(kind)name`: the first child of that name and kind."""
    if element is not None:
        for child in element.all(key):
            if child.kind == kind or kind_matches(child, kind):
                return child
    return None


def make_kind(element: Element, key: str, kind: int) -> Element:
    """The same, made where it is missing."""
    return find_kind(element, key, kind) or element.append(element.new_child(key, kind))


def key_of(namespace: Any, name: Any) -> str:
    """The key of a namespace and a name that the program has computed."""
    if type(name) is not str or type(namespace) is not str:
        wrong = name if type(name) is not str else namespace
        raise EsqlRunError(f"a name is CHARACTER, not {'NULL' if wrong is None else repr(wrong)}", number=2432)
    return f"{{{namespace}}}{name}" if namespace else name


def namespace_of(value: Any) -> str:
    """The namespace that a constant, a variable or an expression before a colon names."""
    if value is None:
        return ""
    if type(value) is not str:
        raise EsqlRunError(f"a namespace is CHARACTER, not {value!r}", number=2432)
    return value


_FIELDS = {kinds_of.XMLNSC_FIELD, kinds_of.XMLNSC_CDATA_FIELD, kinds_of.XMLNSC_HYBRID_FIELD}


def kind_matches(element: Element, wanted: int) -> bool:
    """Whether an element is of a kind, or of a kind that belongs to it."""
    kind = element.kind
    if kind == wanted:
        return True
    if wanted == kinds_of.XMLNSC_FIELD:
        return kind in _FIELDS or (kind == kinds_of.NAME and element.value is not None)
    if wanted == kinds_of.XMLNSC_ATTRIBUTE:
        return kind == kinds_of.XMLNSC_SINGLE_ATTRIBUTE
    if wanted == kinds_of.XMLNSC_NAMESPACE:
        return kind == kinds_of.XMLNSC_SINGLE_NAMESPACE
    return False


def kind_number(value: Any) -> int:
    """A kind that the program has computed: `(0x03000000)`, or a variable."""
    if type(value) is not int:
        raise EsqlRunError(f"the type of an element is an INTEGER, not {value!r}", number=2432)
    return value


# --- making -----------------------------------------------------------------------------------------


def make(element: Element, keys: tuple[str, ...]) -> Element:
    """`walk`, creating what is missing as last children."""
    for key in keys:
        child = element.first(key)
        if child is None:
            child = element.append(element.new_child(key))
        element = child
    return element


def make_nth(element: Element, key: str, number: Any) -> Element:
    """name[number]; the next one after the last is created."""
    found = element.all(key)
    if type(number) is int and 1 <= number <= len(found):
        return found[number - 1]
    _require_next(number, len(found), key)
    return element.append(element.new_child(key))


def make_matching(element: Element, pattern: Pattern, form: str = "", number: Any = 1) -> Element:
    """The child that a pattern and an index describe; created where the pattern says enough."""
    found = matching(element, pattern)
    if form == "from_last":
        if type(number) is int and 1 <= number <= len(found):
            return found[-number]
    elif type(number) is int and 1 <= number <= len(found):
        return found[number - 1]
    _require_next(number, len(found), pattern[1] or "*")
    namespace, name, kinds = pattern
    key = "" if name is None else key_of(namespace or "", name)
    return element.append(element.new_child(key, kinds[0] if kinds else kinds_of.NAME))


def _require_next(number: Any, count: int, key: str) -> None:
    if type(number) is not int:
        raise EsqlRunError(f"the index of {key} is an INTEGER, not {'NULL' if number is None else repr(number)}")
    if number != count + 1:
        problem = f"{key}[{number}] cannot be created: there are {count}, and one after the other is made"
        raise EsqlRunError(problem, number=2434)


# --- values and trees -------------------------------------------------------------------------------


def assign(element: Element, value: Any) -> None:
    """SET field = value, where the value is no NULL; a row or list brings its tree."""
    if isinstance(value, Element):
        take(element, value)
    elif type(value) is list:
        take(element, value[0]) if value and isinstance(value[0], Element) else element.set_value(
            value[0] if value else None
        )
    else:
        element.set_value(value)


def copied(source: Element | None) -> Element | None:
    """The source of a SET whose target lies in it."""
    return None if source is None else source.copy()


def take(element: Element, source: Element) -> None:
    """SET field = another field: value and children as a copy, the own name and kind stay.

    A folder below Root takes over the bytes too, unread.
    """
    if source is element:
        return
    if type(element) is Root:
        element.replace_content(source)
        return
    if type(element) is Element and element.key and source.is_leaf():
        _take_value(element, source.value)
        return
    parent = element.parent
    if type(source) is Folder and parent is not None and type(parent) is Root:
        twin = source.copy()
        if element.key:
            twin.key = element.key
        if not element.key or _same_domain(element, source):
            _replace(parent, element, twin)
            return
    if not element.key:
        element.rename(source.key)
        element.kind = source.kind
    if source.is_leaf():
        _take_value(element, source.value)
        return
    element.replace_content(source)


def _take_value(element: Element, value: Any) -> None:
    # In this order: what has a value has no children, as far as lxml's elements know before they are made.
    if not element.is_leaf():
        element.clear()
    element.value = value
    element.changed(structure=True)


def put_field(parent: Element, key: str, source: Element) -> None:
    """`take` by the child of that name, which is made where it is missing."""
    child = parent.first(key)
    if child is None:
        child = parent.append(parent.new_child(key))
    if type(child) is Element and source.is_leaf() and not child._children:
        child.value = source.value
        if not child._has_changed:
            child.changed(structure=True)
    else:
        take(child, source)


def put_scalar(parent: Element, key: str, value: Any) -> None:
    """A value for the child of that name, which is made where it is missing."""
    child = parent.first(key)
    if child is None:
        child = parent.append(parent.new_child(key))
    child.set_value(value)


def take_folder(root: Element, key: str, source: Element | None) -> None:
    """SET OutputRoot.MQMD = InputRoot.MQMD and its like, without making a folder only to replace it."""
    if type(source) is Folder and type(root) is Root and source.key == key and root.first(key) is None:
        root.append(source.copy())
    elif source is None:
        discard(root.first(key))
    else:
        take(make(root, (key,)), source)


def _same_domain(element: Element, source: Folder) -> bool:
    return type(element) is Folder and element.domain is source.domain


def _replace(parent: Element, old: Element, new: Element) -> None:
    position = parent.position(old, len(parent.children) - 1)
    new.parent = parent
    old.parent = None
    parent.children[position] = new
    parent._index = None
    STRUCTURE[0] += 1
    parent.changed(structure=True)


def discard(element: Element | None) -> None:
    """SET field = NULL, DELETE FIELD: the element and all below it go."""
    if element is not None:
        if element.parent is None:
            element.value = None
            element.clear()
        else:
            element.parent.remove(element)


def assign_list(parent: Element, pattern: Pattern, values: Any) -> None:
    """SET name[] = list: the elements of that name are replaced by one for each of the list."""
    copies = values if type(values) is list else [] if values is None else [values]
    copies = [value.copy() if isinstance(value, Element) else value for value in copies]
    if COPIES.charge is not None:
        COPIES.charge(len(copies))
    for old in list(matching(parent, pattern)):
        parent.remove(old)
    namespace, name, kinds = pattern
    domain = parent.domain_name()
    for value in copies:
        if isinstance(value, Element):
            kind = kinds[0] if kinds else value.kind if name is None else kinds_of.NAME
            key = value.key if name is None else key_of(namespace or "", name)
            made = parent.append(parent.new_child(key, kind))
            made.value = value.value
            made.fill(value.children)
            theirs = value.domain_name()
            if domain and theirs and domain != theirs:
                for child in made.children:
                    child.kind = kinds_of.translate(child.kind, theirs, domain)
        else:
            made = parent.append(parent.new_child("" if name is None else key_of(namespace or "", name)))
            if kinds:
                made.kind = kinds[0]
            made.value = value


def assign_rows(parent: Element, pattern: Pattern, rows: Any) -> None:
    """`assign_list` of rows that a SELECT has just made: they are taken as they are."""
    namespace, name, kinds = pattern
    if name is None:
        assign_list(parent, pattern, rows)
        return
    for old in list(matching(parent, pattern)):
        parent.remove(old)
    key = key_of(namespace or "", name)
    kind = kinds[0] if kinds else kinds_of.NAME
    for row in rows:
        row.key = key
        row.kind = kind
        parent.append(row)


def set_value(element: Element, value: Any) -> None:
    """SET field VALUE = value: NULL keeps the element, which in JSON is a null and no empty object."""
    element.set_value(value)
    if value is None and element.kind == kinds_of.NAME and element.is_leaf() and element.domain_name() == "JSON":
        element.set_kind(kinds_of.JSON_VALUE)


def set_name(element: Element, name: Any) -> None:
    """SET field NAME = name."""
    namespace = element.namespace
    element.rename(key_of(namespace, name))


def set_namespace(element: Element, namespace: Any) -> None:
    element.rename(key_of(namespace_of(namespace), element.name))


def set_type(element: Element, kind: Any) -> None:
    element.set_kind(kind_number(kind))


# --- what functions ask ------------------------------------------------------------------------------


def field_name(element: Element | None) -> str | None:
    return None if element is None or not element.key else element.name


def field_namespace(element: Element | None) -> str | None:
    return None if element is None else element.namespace


def field_type(element: Element | None) -> int | None:
    return None if element is None else element.kind


# --- references ---------------------------------------------------------------------------------------


def sibling(
    element: Element, guess: int, step: int, pattern: Pattern | None, repeat: tuple[str, ...] = ()
) -> tuple[Element, bool, int]:
    """MOVE NEXTSIBLING or PREVIOUSSIBLING: where the reference is then, whether it moved, and its position."""
    parent = element.parent
    if parent is None:
        return element, False, guess
    children = parent.children
    here = parent.position(element, guess)
    position = here + step
    while 0 <= position < len(children):
        candidate = children[position]
        if _fits(candidate, element, pattern, repeat):
            return candidate, True, position
        position += step
    return element, False, here


def child_of(
    element: Element, last: bool, pattern: Pattern | None, repeat: tuple[str, ...] = ()
) -> tuple[Element, bool, int]:
    """MOVE FIRSTCHILD or LASTCHILD."""
    children = element.children
    places = range(len(children) - 1, -1, -1) if last else range(len(children))
    for position in places:
        if _fits(children[position], element, pattern, repeat):
            return children[position], True, position
    return element, False, 0


def parent_of(element: Element) -> tuple[Element, bool, int]:
    """MOVE PARENT."""
    return (element, False, 0) if element.parent is None else (element.parent, True, 0)


def _fits(candidate: Element, leaving: Element, pattern: Pattern | None, repeat: tuple[str, ...]) -> bool:
    if "NAME" in repeat and candidate.key != leaving.key:
        return False
    if "TYPE" in repeat and candidate.kind != leaving.kind:
        return False
    if pattern is None:
        return True
    namespace, name, kinds = pattern
    if name is not None and candidate.name != name:
        return False
    if namespace is not None and candidate.namespace != namespace:
        return False
    return not kinds or any(kind_matches(candidate, kind) for kind in kinds)


def attach(element: Element, target: Element, where: str) -> None:
    """ATTACH: a detached tree gets a place."""
    if element.parent is not None:
        raise EsqlRunError("ATTACH: the tree is attached already; DETACH it first", number=3282)
    # It has no parent, so a place inside of it is one whose root it is.
    above: Element | None = target
    while above is not None:
        if above is element:
            raise EsqlRunError(f"ATTACH: {target.path()} lies in the tree that is to be attached", number=3282)
        above = above.parent
    place(element, target, where)


def place(element: Element, target: Element, where: str) -> Element:
    """Beside or below another element, as CREATE says it."""
    if where == "LASTCHILD":
        return target.append(element)
    if where == "FIRSTCHILD":
        return target.insert(0, element)
    parent = target.parent
    if parent is None:
        raise EsqlRunError(f"{target.key or 'this field'} has no parent, so nothing can stand beside it", number=3281)
    position = parent.position(target)
    return parent.insert(position if where == "PREVIOUSSIBLING" else position + 1, element)


def neighbour(target: Element | None, where: str) -> Element | None:
    """What DELETE NEXTSIBLING OF and its kin name."""
    if target is None:
        return None
    if where in ("FIRSTCHILD", "LASTCHILD"):
        children = target.children
        return (children[0] if where == "FIRSTCHILD" else children[-1]) if children else None
    if target.parent is None:
        return None
    siblings = target.parent.children
    position = target.parent.position(target) + (1 if where == "NEXTSIBLING" else -1)
    return siblings[position] if 0 <= position < len(siblings) else None
