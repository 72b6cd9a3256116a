# SPDX-License-Identifier: Apache-2.0
"""The highest rate that a system sustains: bracket, refine, confirm, with an interval and its evidence."""
