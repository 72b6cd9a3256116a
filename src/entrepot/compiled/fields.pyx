# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3, initializedcheck=False
"""What compiled ESQL programs call most, over elements of C.

Each function does the usual case and leaves others to its twin in esql/runtime (fields, rows, comparing, operators),
which says what it promises. `esql/compiler/vocabulary.py` lays these over the twins.
"""

from cpython.object cimport Py_GE, Py_GT, Py_LE, Py_LT, PyObject_RichCompare

from entrepot.compiled.element cimport NAME, STRUCTURE, Element, Folder, Root, loaded, new_element, value_of

from decimal import Decimal

from entrepot.esql.runtime import casting, comparing, fields, operators, rows
from entrepot.esql.runtime.large import LARGE as _LARGE

cdef extern from "Python.h":
    bint has_feature "PyType_HasFeature"(type, unsigned long)
    unsigned long HEAP_TYPE "Py_TPFLAGS_HEAPTYPE"

cdef Py_ssize_t LARGE = _LARGE
cdef object INTEGER_LEAST = -0x8000_0000_0000_0000
cdef object INTEGER_MOST = 0x7FFF_FFFF_FFFF_FFFF


cdef inline bint is_field(Element element):
    """Neither a folder nor a root, nor of a class of Python's, which may mean more by a value."""
    cdef type kind = type(element)
    return kind is Element or not (kind is Folder or kind is Root or has_feature(kind, HEAP_TYPE))


# --- finding ---------------------------------------------------------------------------------------------------------

cpdef Element walk(Element element, tuple keys):
    for key in keys:
        if element is None:
            return None
        element = element.first(key)
    return element


cpdef Element find_from(list site, Element root, tuple keys):
    cdef Element found = walk(root, keys)
    if found is not None:
        site[1] = found
        site[0] = STRUCTURE[0]
    return found


cpdef Element make_from(list site, Element root, tuple keys):
    cdef Element found = make(root, keys)
    site[1] = found
    site[0] = STRUCTURE[0]
    return found


cpdef Element find_nth_from(list site, Element element, key, number):
    cdef Element found = nth(element, key, number)
    if found is not None:
        site[0] = STRUCTURE[0]
        site[1] = found
        site[2] = number
    return found


cpdef Element make_nth_from(list site, Element element, key, number):
    cdef Element found = make_nth(element, key, number)
    site[0] = STRUCTURE[0]
    site[1] = found
    site[2] = number
    return found


def read(Element element, tuple keys):
    element = walk(element, keys)
    return None if element is None else value_of(element)


cpdef Element nth(Element element, key, number):
    cdef list found
    cdef Py_ssize_t place
    if element is None or number is None:
        return None
    if type(number) is not int:
        return fields.nth(element, key, number)
    found = element.all(key)
    if 1 <= number <= len(found):
        place = number
        return <Element>found[place - 1]
    return fields.nth(element, key, number)


def named(Element element, key):
    return [] if element is None else element.all(key)


cpdef Element find_kind(Element element, key, kind):
    cdef Element child
    if element is not None:
        for child in element.all(key):
            if child.kind == kind or fields.kind_matches(child, kind):
                return child
    return None


# --- making ----------------------------------------------------------------------------------------------------------

cpdef Element make(Element element, tuple keys):
    cdef Element child
    if element is None:
        return fields.make(element, keys)
    for key in keys:
        child = element.first(key)
        if child is None:
            child = element.append(element.new_child(key))
        element = child
    return element


cpdef Element make_nth(Element element, key, number):
    cdef list found
    cdef Py_ssize_t place
    if element is None or type(number) is not int:
        return fields.make_nth(element, key, number)
    found = element.all(key)
    if 1 <= number <= len(found):
        place = number
        return <Element>found[place - 1]
    if number == len(found) + 1:
        return element.append(element.new_child(key))
    return fields.make_nth(element, key, number)


def make_kind(Element element not None, key, kind):
    cdef Element child = find_kind(element, key, kind)
    return element.append(element.new_child(key, kind)) if child is None else child


cpdef Element make_matching(Element element, tuple pattern, form="", number=1):
    """Here only what stands in a SELECT: a name and at most one kind, and the first of that name."""
    cdef list found
    namespace, name, kinds = pattern
    if element is None or form == "from_last" or number != 1 or type(name) is not str or type(namespace) is not str:
        return fields.make_matching(element, pattern, form, number)
    key = fields.key_of(namespace, name) if namespace else name
    found = element.all(key)
    if found:
        return fields.make_matching(element, pattern, form, number)
    return element.append(element.new_child(key, kinds[0] if kinds else NAME))


# --- values and trees ------------------------------------------------------------------------------------------------

cpdef take(Element element, Element source):
    if source is element or element is None or source is None:
        return fields.take(element, source)
    if is_field(element) and type(source) is not Folder and element.key and source.is_leaf():
        value = value_of(source)
        if not element.is_leaf():
            element.clear()
        element.held = value
        element.mark(True)
        return None
    return fields.take(element, source)


def put_field(Element parent not None, key, Element source not None):
    cdef Element child = parent.first(key)
    if child is None:
        child = parent.append(parent.new_child(key))
    if type(child) is Element and not child._children and source.is_leaf():
        child.held = value_of(source)
        if not child._has_changed:
            child.mark(True)
    else:
        take(child, source)


def put_scalar(Element parent not None, key, value):
    cdef Element child = parent.first(key)
    if child is None:
        child = parent.append(parent.new_child(key))
    child.set_value(value)


def take_folder(Element root not None, key, Element source):
    if type(source) is Folder and type(root) is Root and source.key == key and root.first(key) is None:
        root.append(source.copy())
    else:
        fields.take_folder(root, key, source)


# --- rows ------------------------------------------------------------------------------------------------------------

def cardinality(values):
    if type(values) is list:
        return len(<list>values)
    return 0 if values is None else 1


def new_row():
    cdef Element row = new_element("", None)
    row._children = []
    return row


def add_value(Element row not None, key, value, kind=None):
    cdef Element child
    if value is not None:
        child = new_element(key, value)
        if kind is not None:
            child.kind = kind
        child.parent = row
        row._children.append(child)


def add_tree(Element row not None, key, Element source):
    cdef Element child
    if source is not None:
        child = new_element(key, value_of(source))
        child.parent = row
        row._children.append(child)
        if not source.is_leaf():
            take(child, source)


def put_value(Element row not None, tuple keys, value):
    if value is not None:
        make(row, keys).value = value


def put_tree(Element row not None, tuple keys, Element source):
    cdef Element target
    if source is not None:
        target = make(row, keys)
        if source.is_leaf():
            target.value = value_of(source)
        else:
            take(target, source)


def put_any(Element row not None, tuple keys, value):
    if value is None:
        return
    if type(value) is list or isinstance(value, Element):
        rows.put_any(row, keys, value)
    else:
        make(row, keys).set_value(value)


def assign_rows(Element parent not None, tuple pattern, made):
    cdef Element row
    namespace, name, kinds = pattern
    if name is None or type(made) is not list:
        return fields.assign_rows(parent, pattern, made)
    key = fields.key_of(namespace or "", name)
    for row in list(fields.matching(parent, pattern)):
        parent.remove(row)
    kind = kinds[0] if kinds else NAME
    for row in <list>made:
        row.key = key
        row.kind = kind
        parent.append(row)


# --- numbers ---------------------------------------------------------------------------------------------------------

cdef extern from "Python.h":
    double PyOS_string_to_double(const char* text, char** end, object overflow) except? -1.0
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL

cdef enum:
    DIGITS_MAX = 30             # a DECIMAL has 34


cdef bint is_plain_number(str text) except -1:
    """A sign or none, digits, and perhaps a point with digits behind it."""
    cdef Py_ssize_t length, i = 0, digits = 0
    cdef const char* p
    if not 0 < len(text) <= DIGITS_MAX:
        return False
    p = PyUnicode_AsUTF8AndSize(text, &length)
    if length > DIGITS_MAX:
        return False
    if p[0] == 45 or p[0] == 43:
        i = 1
    while i < length and 48 <= p[i] <= 57:
        i += 1
        digits += 1
    if digits and i < length and p[i] == 46:
        i += 1
        digits = 0
        while i < length and 48 <= p[i] <= 57:
            i += 1
            digits += 1
    return digits > 0 and i == length


cdef class FloatCast:
    """CAST(... AS FLOAT); what is no plain number goes to the twin."""

    cdef object twin

    def __init__(self, twin):
        self.twin = twin

    def __call__(self, value):
        cdef Py_ssize_t length
        if type(value) is str and is_plain_number(<str>value):
            return PyOS_string_to_double(PyUnicode_AsUTF8AndSize(value, &length), NULL, None)
        return self.twin(value)


def caster(type_name, precision=None, scale=None, qualifier=""):
    made = casting.caster(type_name, precision, scale, qualifier)
    return FloatCast(made) if type_name == "FLOAT" else made


# --- comparing and counting ------------------------------------------------------------------------------------------

cdef inline bint ends_blank(str text):
    cdef Py_ssize_t length = len(text)
    return length > 0 and text[length - 1] == " "


def equal(a, b):
    if type(a) is str and type(b) is str:
        if a == b:
            return True
        if not ends_blank(<str>a) and not ends_blank(<str>b):
            return False
    elif type(a) is int and type(b) is int:
        return a == b
    elif a is None or b is None:
        return None
    return comparing.equal(a, b)


def not_equal(a, b):
    same = equal(a, b)
    return None if same is None else not same


cdef object ordered(a, b, int how, twin):
    if type(a) is int and type(b) is int:
        return PyObject_RichCompare(a, b, how)
    if type(a) is str and type(b) is str and not ends_blank(<str>a) and not ends_blank(<str>b):
        return PyObject_RichCompare(a, b, how)
    if a is None or b is None:
        return None
    if type(a) is str and type(b) is Decimal and is_plain_number(<str>a) and b.is_finite():
        return PyObject_RichCompare(Decimal(a), b, how)
    return twin(a, b)


cdef object _less = comparing.less
cdef object _less_equal = comparing.less_equal
cdef object _greater = comparing.greater
cdef object _greater_equal = comparing.greater_equal
cdef object _add = operators.add
cdef object _subtract = operators.subtract
cdef object _multiply = operators.multiply
cdef object _concat = operators.concat


def less(a, b):
    return ordered(a, b, Py_LT, _less)


def less_equal(a, b):
    return ordered(a, b, Py_LE, _less_equal)


def greater(a, b):
    return ordered(a, b, Py_GT, _greater)


def greater_equal(a, b):
    return ordered(a, b, Py_GE, _greater_equal)


def add(a, b):
    if type(a) is int and type(b) is int:
        total = a + b
        if INTEGER_LEAST <= total <= INTEGER_MOST:
            return total
    return _add(a, b)


def subtract(a, b):
    if type(a) is int and type(b) is int:
        total = a - b
        if INTEGER_LEAST <= total <= INTEGER_MOST:
            return total
    return _subtract(a, b)


def multiply(a, b):
    cdef double result
    if type(a) is float and type(b) is float:
        result = <double>a * <double>b
        if result - result == 0:
            return result
    return _multiply(a, b)


def concat(a, b):
    if type(a) is str and type(b) is str and len(<str>a) + len(<str>b) <= LARGE:
        return a + b
    return _concat(a, b)


WORDS = (
    walk, find_from, make_from, find_nth_from, make_nth_from, read, nth, named, find_kind, make, make_nth, make_kind,
    make_matching, take, take_folder, put_field, put_scalar, cardinality, new_row, add_value, add_tree, put_value,
    put_tree, put_any, assign_rows, equal, not_equal, less, less_equal, greater, greater_equal, add, subtract, multiply,
    concat, caster,
)
