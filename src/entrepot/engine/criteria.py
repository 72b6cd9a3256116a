# SPDX-License-Identifier: Apache-2.0
"""Which message a reader wants, when it does not want just the next one."""

from __future__ import annotations

import msgspec

from entrepot.message import Message
from entrepot.selectors import Selector


class Criteria(msgspec.Struct, frozen=True, kw_only=True):
    """All that are given must hold."""

    message_id: bytes | None = None
    correlation_id: bytes | None = None
    group_id: bytes | None = None
    selector: Selector | None = None
    whole_group: bool = False
    """Only messages whose whole group is there; those of no group are a group of one."""

    @property
    def is_correlation_only(self) -> bool:
        return self.message_id is None and self.group_id is None and self.selector is None and not self.whole_group

    def steps_for(self, message: Message) -> int:
        """What `matches` costs at most, in the steps of selectors."""
        return 1 if self.selector is None else self.selector.steps_for(message)

    def matches(self, message: Message) -> bool:
        """Whether a message meets everything but `whole_group`, which needs the queue to tell."""
        return (
            (self.message_id is None or message.message_id == self.message_id)
            and (self.correlation_id is None or message.correlation_id == self.correlation_id)
            and (self.group_id is None or message.group_id == self.group_id)
            and (self.selector is None or self.selector.matches(message))
        )
