# SPDX-License-Identifier: Apache-2.0
"""What stands before an MQ message's own data: the descriptor, and headers that each name the next.

`layout` has the fixed structures; `mqmd`, `mqdlh` and `mqrfh2` are domains
for their folders; `chain` walks from one header to the next; `properties` is
the folder that has no bytes at all. `origin` lets folders of descriptor
fields stay unread until a program looks inside.
"""

from __future__ import annotations
