# SPDX-License-Identifier: Apache-2.0
"""A queue manager as a process: `server` puts host, listeners, sessions and channels together."""
