# SPDX-License-Identifier: Apache-2.0
"""CWF, the custom wire format: structures of fixed and counted fields, as COBOL and C lay them out."""

from __future__ import annotations

from entrepot.models.cwf.codec import CwfCodec, compile_cwf

__all__ = ["CwfCodec", "compile_cwf"]
