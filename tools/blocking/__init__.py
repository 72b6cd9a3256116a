# SPDX-License-Identifier: Apache-2.0
"""Makes the blocking form of the client library from its coroutines."""
