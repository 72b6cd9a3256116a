# SPDX-License-Identifier: Apache-2.0
"""Dates and times as text: patterns that say their form, and ISO's where there is none."""
