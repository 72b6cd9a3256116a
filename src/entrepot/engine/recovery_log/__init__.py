# SPDX-License-Identifier: Apache-2.0
"""What survives a crash: the recovery log, checkpoints, and the files that messages move to.

docs/RECOVERY_LOG.md is the contract. Reading order: record, segment,
writer, reader, run, checkpoint, media.
"""
