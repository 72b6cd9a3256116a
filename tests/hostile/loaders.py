# SPDX-License-Identifier: Apache-2.0
"""Every kind of file that describes messages: how it is loaded, and good ones to begin with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from entrepot.errors import ModelInvalid
from entrepot.models.copybook import read_copybook
from entrepot.models.mrm import MessageFormat as Wanted
from entrepot.models.mrm import _compile
from entrepot.models.mxsd import read_mxsd
from entrepot.models.notation import read_notation

from .readers import GOLDEN, MRM_XML

YAML_SEEDS = (MRM_XML.encode(), *((GOLDEN / f"{name}.yaml").read_bytes() for name in ("tds_orders", "tds_records")))
COPYBOOK_SEEDS = tuple((GOLDEN / f"{name}.cpy").read_bytes() for name in ("warehouse_order", "synchronized_parts"))
MXSD_SEED = b"""<xsd:schema xmlns:xsd="http://www.w3.org/2001/XMLSchema" targetNamespace="urn:t" xmlns:t="urn:t">
<xsd:complexType name="Line"><xsd:sequence><xsd:element name="sku" type="xsd:string"/>
<xsd:element name="n" type="xsd:int" minOccurs="0" maxOccurs="3"/></xsd:sequence></xsd:complexType>
<xsd:element name="Order"><xsd:complexType><xsd:sequence><xsd:element name="id"><xsd:simpleType>
<xsd:restriction base="xsd:string"><xsd:maxLength value="10"/><xsd:pattern value="[A-Z]{1,4}"/></xsd:restriction>
</xsd:simpleType></xsd:element><xsd:choice><xsd:element name="line" type="t:Line" maxOccurs="unbounded"/>
<xsd:element name="none" type="xsd:boolean"/></xsd:choice></xsd:sequence></xsd:complexType></xsd:element>
</xsd:schema>"""


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _load_yaml(data: bytes) -> Any:
    return read_notation(as_text(data), "m.yaml")


def _load_copybook(data: bytes) -> Any:
    return read_copybook(as_text(data), "m.cpy")


def _load_mxsd(data: bytes) -> Any:
    return read_mxsd(data, "nowhere/m.mxsd")


LOADERS: dict[str, tuple[Callable[[bytes], Any], tuple[bytes, ...]]] = {
    "YAML": (_load_yaml, YAML_SEEDS),
    "copybook": (_load_copybook, COPYBOOK_SEEDS),
    "mxsd": (_load_mxsd, (MXSD_SEED,)),
}


def require_loaded_or_refused(load: Callable[[bytes], Any], data: bytes) -> None:
    """A model is refused at a line of it, or every format of every message can be compiled or is refused."""
    try:
        message_set = load(data)
        for format_name in message_set.formats:
            for message in message_set.messages:
                _compile(Wanted(message_set, message, format_name))
    except ModelInvalid as error:
        assert error.line >= 0
        assert error.problem
