# SPDX-License-Identifier: Apache-2.0
"""Entrepot: queues that never lose a message."""
