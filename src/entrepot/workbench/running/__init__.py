# SPDX-License-Identifier: Apache-2.0
"""Many trials as one run: planned, shown while it goes on, resumed when it was interrupted."""
