# SPDX-License-Identifier: Apache-2.0
"""Connections for the tasks of an event loop; and the source of `entrepot.client.blocking`."""
