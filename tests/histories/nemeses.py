# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a round, one nemesis at a time; each mends everything but the server, which may be gone."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from histories.site import Site

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Nemesis:
    """A kind of trouble."""

    strike: Callable[[Site, Random], None]
    own_disk: bool = False
    """Needs a file system that can be filled and cut off."""
    linear: bool = False
    """Needs a linear log."""
    survived: bool = True
    """Whether the server has to live through it."""


def _freeze(site: Site, random: Random) -> None:
    site.freeze(random.uniform(0.05, 0.6))


def _cut_network(site: Site, random: Random) -> None:
    for _ in range(random.randint(1, 3)):
        site.cut()
        time.sleep(random.uniform(0.02, 0.15))


def _lose_answers(site: Site, random: Random) -> None:
    site.make_deaf()
    time.sleep(random.uniform(0.02, 0.2))
    site.cut()


def _fill_disk(site: Site, random: Random) -> None:
    site.fill_disk()
    time.sleep(random.uniform(0.1, 0.5))
    site.fill_disk()
    if random.random() < 0.4:
        site.kill()
        site.start()  # on a full disk
    time.sleep(random.uniform(0.05, 0.2))
    site.empty_disk()


def _move_clock(site: Site, random: Random) -> None:
    for seconds in (random.choice((-DAY_S, DAY_S, 3600.0, -3600.0)), random.choice((0.0, 7.0, -7.0))):
        site.move_clock(seconds)
        time.sleep(random.uniform(0.05, 0.2))
        if random.random() < 0.3:
            site.kill()
            site.start()


def _starve_memory(site: Site, random: Random) -> None:
    site.limit(resource.RLIMIT_AS, random.randint(0, 24) * 1024 * 1024)
    time.sleep(random.uniform(0.1, 0.4))
    if site.is_running:
        site.limit(resource.RLIMIT_AS, -1)


def _starve_descriptors(site: Site, random: Random) -> None:
    site.limit(resource.RLIMIT_NOFILE, random.randint(0, 3))
    site.cut()  # all come back at once
    time.sleep(random.uniform(0.1, 0.3))
    site.limit(resource.RLIMIT_NOFILE, -1)


def _checkpoint(site: Site, random: Random) -> None:
    for _ in range(random.randint(1, 4)):
        site.checkpoint()
    if random.random() < 0.5:
        site.kill()


def _back_up_and_restore(site: Site, random: Random) -> None:
    backup = site.back_up()
    time.sleep(random.uniform(0.05, 0.3))
    site.restore(backup)


NEMESES: dict[str, Nemesis] = {
    "kill": Nemesis(lambda site, _: site.kill(), survived=False),
    "freeze": Nemesis(_freeze),
    "cut the network": Nemesis(_cut_network),
    "lose answers": Nemesis(_lose_answers),
    "fill the disk": Nemesis(_fill_disk, own_disk=True),
    "cut the power": Nemesis(lambda site, _: site.cut_power(), own_disk=True, survived=False),
    "move the clock": Nemesis(_move_clock),
    "starve of memory": Nemesis(_starve_memory, survived=False),
    "starve of descriptors": Nemesis(_starve_descriptors),
    "checkpoint": Nemesis(_checkpoint, survived=False),
    "restore a backup": Nemesis(_back_up_and_restore, linear=True),
}
