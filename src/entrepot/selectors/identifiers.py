# SPDX-License-Identifier: Apache-2.0
"""What the names in a selector stand for.

A name is a property of the message, unless it is one of those below. JMS
keeps the names that begin with JMS for itself, so a property can never hide
one of these; a `Root.MQMD` name gives way to a property of the same name.

A header field without a value is NULL under its JMS name, as a getter of JMS
would return null; under its MQMD name it is the field as it stands, since a
descriptor always has all fields. Message ids read `ID:` and hexadecimal.
Correlation and group ids are often texts of the application: printable UTF-8
reads as that text, and only what is not printable as `ID:` and hexadecimal.
JMS forbids the destination, reply-to, expiration and redelivered headers in
selectors, so they are NULL.
"""

from __future__ import annotations

from entrepot.message import Message
from entrepot.selectors.kinds import Reader, Value


def identifier_reader(name: str) -> Reader:
    """What reads the value of this name from a message."""
    if name in JMS_FIELDS:
        return JMS_FIELDS[name]
    if name in DESCRIPTOR_FIELDS:
        read_field = DESCRIPTOR_FIELDS[name]

        def read_property_or_field(message: Message) -> Value:
            value = message.properties.get(name)
            return read_field(message) if value is None else value

        return read_property_or_field
    return lambda message: message.properties.get(name)


def is_property(name: str) -> bool:
    """Whether this name is always and only a property, so that it may be read without `identifier_reader`."""
    return name not in JMS_FIELDS and name not in DESCRIPTOR_FIELDS


def _identifier_text(identifier: bytes) -> str | None:
    if not identifier:
        return None
    try:
        text = identifier.decode()
    except UnicodeDecodeError:
        text = ""
    return text if text and text.isprintable() else f"ID:{identifier.hex()}"


JMS_FIELDS: dict[str, Reader] = {
    "JMSMessageID": lambda message: f"ID:{message.message_id.hex()}" if message.message_id else None,
    "JMSCorrelationID": lambda message: _identifier_text(message.correlation_id),
    "JMSPriority": lambda message: message.priority,
    # Rounded, because 1.001 s times 1000 is a little less than 1001 ms in binary.
    "JMSTimestamp": lambda message: round(message.put_time * 1000),
    "JMSDeliveryMode": lambda message: "PERSISTENT" if message.persistent else "NON_PERSISTENT",
    "JMSXDeliveryCount": lambda message: message.backout_count + 1,
    "JMSXGroupID": lambda message: _identifier_text(message.group_id),
    "JMSXGroupSeq": lambda message: message.sequence if message.group_id else None,
    "JMSXUserID": lambda message: message.user or None,
    "JMSXAppID": lambda message: message.application or None,
    "JMSDestination": lambda _message: None,
    "JMSExpiration": lambda _message: None,
    "JMSRedelivered": lambda _message: None,
    "JMSReplyTo": lambda _message: None,
}

DESCRIPTOR_FIELDS: dict[str, Reader] = {
    "Root.MQMD.BackoutCount": lambda message: message.backout_count,
    "Root.MQMD.CodedCharSetId": lambda message: message.ccsid,
    "Root.MQMD.Encoding": lambda message: message.encoding,
    "Root.MQMD.Feedback": lambda message: message.feedback,
    "Root.MQMD.Format": lambda message: message.format,
    "Root.MQMD.MsgSeqNumber": lambda message: message.sequence,
    "Root.MQMD.MsgType": lambda message: int(message.type),
    # MQPER_PERSISTENT is 1 and MQPER_NOT_PERSISTENT is 0.
    "Root.MQMD.Persistence": lambda message: int(message.persistent),
    "Root.MQMD.Priority": lambda message: message.priority,
    "Root.MQMD.ReplyToQ": lambda message: message.reply_to,
    "Root.MQMD.UserIdentifier": lambda message: message.user,
}
