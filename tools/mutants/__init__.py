# SPDX-License-Identifier: Apache-2.0
"""Mutation testing: plant one small bug at a time, and see whether the nearest tests notice.

    make mutants                        400 mutants of a fixed sample; about an hour on two cores
    python -m mutants --only lane.py    from tools/, all mutants of one module

`operators` finds the places where a bug can be planted, `rooms` says which
modules take part, `sample` chooses, `reach` finds out which tests come near,
`trial` runs them on one mutant, `survivors.yaml` gives the reason for each
mutant that no test can or need notice.
"""
