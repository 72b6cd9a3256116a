# SPDX-License-Identifier: Apache-2.0
"""Builds, installs and tries what is published."""
