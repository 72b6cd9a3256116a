# SPDX-License-Identifier: Apache-2.0
"""The host of a server: what messages cause is measured by the authority of those who have put them."""

from __future__ import annotations

from entrepot.engine.host import Host
from entrepot.engine.queue_manager import QueueManager
from entrepot.server.security.originators import RecordedOriginators


class ServedHost(Host):
    """A host whose users are not all its own."""

    def _restarted(self, manager: QueueManager) -> None:
        # Before the first expiry: a report on it must not go where its sender may not put.
        manager.objects.originators = RecordedOriginators(manager.objects, self.path)
