# SPDX-License-Identifier: Apache-2.0
"""One trial: the stage, what is sampled meanwhile, what it leaves, and the visit that leads it."""
