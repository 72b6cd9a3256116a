# SPDX-License-Identifier: Apache-2.0
"""The report: the documents' tables and figures drawn again, as one HTML page and as Markdown."""
