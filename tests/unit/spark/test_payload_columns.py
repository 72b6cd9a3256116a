# SPDX-License-Identifier: Apache-2.0
"""Batches of records become the columns that the tree of each record would give, and errors are the same."""

from __future__ import annotations

from random import Random

from entrepot.errors import EntrepotError
from unit.spark.record_models import first_difference, payload_of, random_members, random_messages


def difference_of(seed: int) -> str | None:
    random = Random(seed)
    members, makers = random_members(random)
    try:
        payload = payload_of(*members)
    except EntrepotError:
        return None
    found = first_difference(payload, random_messages(random, makers, 60))
    return f"seed {seed}: {found}" if found else ""


if __name__ == "__main__":
    import sys
    n = 0
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        d = difference_of(seed)
        n += d is None
        if d: print(d[:1500])
    print("no model", n)
