# SPDX-License-Identifier: Apache-2.0
"""The TDS physical format of the MRM: text told apart by tags, delimiters, lengths and patterns."""

from __future__ import annotations

from entrepot.models.tds.codec import compile_tds
from entrepot.models.tds.mnemonics import resolve, spell

__all__ = ["compile_tds", "resolve", "spell"]
