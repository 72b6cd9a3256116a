# SPDX-License-Identifier: Apache-2.0
"""What makes the load: clients in processes of their own, gathered at a gate, on a schedule."""
