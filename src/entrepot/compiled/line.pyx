# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
