# SPDX-License-Identifier: Apache-2.0
"""What the bytes of a message mean: one logical tree over all formats.

tree           elements, folders that parse on demand, the message assembly above them
element_types  the kinds of elements that each domain knows (attribute, CDATA, array ...)
domains        which parser and renderer stands behind a folder's name
xml, json, blob, mime, headers/      self-defining domains
logical        the model of a message set; notation, copybook and mxsd read one
cwf/, tds/, mrm_xml                  its three physical formats
swift/         SWIFT's messages as TDS models
"""
