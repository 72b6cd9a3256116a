# SPDX-License-Identifier: Apache-2.0
"""What many senders have sent and many receivers have seen, in memory that all processes of a visit share.

Every message carries the number of its sender and its own number, so each
receiver tells at once when one is missing, comes twice or overtakes another.
Senders read how far the slowest of their receivers is and pause when too much
is under way: the throttle lies outside of the system under measurement, is
the same for all systems, and keeps their memory bounded.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any

from figures import Figure, at_most
from load import ApplicationFailed, Applications, Gate, sleep_until
from processes import CpuTimes, resident_kib

DRAIN_S = 60.0
PAUSE_S = 0.0005
EXTENSION_S_MAX = 30.0
"""How much longer than planned a window may last until enough is seen."""
HEAD = struct.Struct(">IQ")
"""What every body begins with: the sender's number and the message's."""

Decode = Callable[[bytes], tuple[int, int]]


class Tallies:
    """One cell for each sender and receiver; only that receiver writes it, so nothing has to be locked."""

    def __init__(self, senders: int, receivers: int, *, shared: bool = False, stride: int = 1) -> None:
        """Lay out the memory.

        Args:
            shared: Receivers share what is sent, as those of a queue do; otherwise each gets everything.
            stride: Receiver r is to get every stride-th message, beginning with number r % stride.
        """
        self._senders, self._receivers = senders, receivers
        self._shared, self._stride = shared, stride
        cells = senders * receivers
        # Anonymous and shared: a child that is forked writes into the same pages.
        memory = memoryview(mmap.mmap(-1, 8 * (1 + 2 * senders + 2 * cells + receivers))).cast("Q")
        self._stopped, memory = memory[:1], memory[1:]
        self._sent, memory = memory[:senders], memory[senders:]
        self._finished, memory = memory[:senders], memory[senders:]
        self._seen, memory = memory[:cells], memory[cells:]
        self._sums, self._faults = memory[:cells], memory[cells:]

    # --- the sender's side ------------------------------------------------------------------------

    def produce(
        self,
        sender: int,
        audience: range,
        send: Callable[[range], Any],
        *,
        at_once: int,
        window: int,
        pause: Callable[[float], Any] = time.sleep,
        pause_s: float = PAUSE_S,
    ) -> None:
        """Call `send` with the numbers of the messages to send next, until `stop`; at most `window` are under way.

        `audience` are the receivers who get this sender's messages.
        """
        sent, stopped = self._sent, self._stopped
        row = self._seen[sender * self._receivers :][audience.start : audience.stop]
        number, limit = 0, window
        while not stopped[0]:
            if number + at_once > limit:
                # Whoever has seen k of every stride-th has passed the number k * stride.
                passed = sum(row) if self._shared else min(row) * self._stride
                limit = passed + window
                if number + at_once > limit:
                    pause(pause_s)
                    continue
            send(range(number, number + at_once))
            number += at_once
            sent[sender] = number
        self._finished[sender] = 1

    def stop(self) -> None:
        self._stopped[0] = 1

    @property
    def stopped(self) -> bool:
        return bool(self._stopped[0])

    # --- the receiver's side ----------------------------------------------------------------------

    def see(self, receiver: int, decode: Decode = HEAD.unpack_from) -> Callable[[bytes], None]:
        """A function for this receiver to call with each body."""
        seen, sums, faults, receivers = self._seen, self._sums, self._faults, self._receivers
        stride, offset = self._stride, receiver % self._stride

        def see(body: bytes) -> None:
            sender, number = decode(body)
            cell = sender * receivers + receiver
            count = seen[cell]
            if number != count * stride + offset:
                faults[receiver] += 1
            sums[cell] += number
            seen[cell] = count + 1

        last = [-1] * self._senders

        def see_shared(body: bytes) -> None:
            sender, number = decode(body)
            cell = sender * receivers + receiver
            if number <= last[sender]:
                faults[receiver] += 1
            last[sender] = number
            sums[cell] += number
            seen[cell] += 1

        return see_shared if self._shared else see

    # --- the end ----------------------------------------------------------------------------------

    def totals(self) -> tuple[int, int]:
        """How many messages were sent and how many deliveries were seen so far."""
        return sum(self._sent), sum(self._seen)

    def settle(self, audiences: Sequence[range]) -> None:
        """Return when all senders have finished and all is seen, or after DRAIN_S; one audience for each sender."""
        deadline = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline and not (all(self._finished) and not self._missing(audiences)):
            time.sleep(0.01)

    def drain(self, audiences: Sequence[range]) -> dict[str, int]:
        """Wait for what is still under way, and tell what is wrong."""
        self.settle(audiences)
        # A moment longer, for what comes twice.
        time.sleep(0.1)
        sent, seen = self.totals()
        return {
            "sent": sent,
            "seen": seen,
            "missing_or_twice": self._missing(audiences) + self._strangers(audiences),
            "out_of_order": sum(self._faults),
        }

    def _missing(self, audiences: Sequence[range]) -> int:
        """Messages too few or too many; with as many as were sent but others, at least one."""
        wrong = 0
        for sender, audience in enumerate(audiences):
            start, sent = sender * self._receivers, self._sent[sender]
            counts = self._seen[start + audience.start : start + audience.stop]
            sums = self._sums[start + audience.start : start + audience.stop]
            if self._shared:
                found = [(sum(counts), sum(sums), range(sent))]
            else:
                wanted = [range(receiver % self._stride, sent, self._stride) for receiver in audience]
                found = list(zip(counts, sums, wanted, strict=True))
            wrong += sum(abs(count - len(due)) or total != _sum(due) for count, total, due in found)
        return wrong

    def _strangers(self, audiences: Sequence[range]) -> int:
        """What reached receivers for whom it was not meant."""
        meant = sum(
            sum(self._seen[sender * self._receivers :][audience.start : audience.stop])
            for sender, audience in enumerate(audiences)
        )
        return self.totals()[1] - meant


def _sum(numbers: range) -> int:
    return (numbers[0] + numbers[-1]) * len(numbers) // 2 if numbers else 0


def observe(
    tallies: Tallies,
    gate: Gate,
    applications: Applications,
    pids: Sequence[int],
    sender: Callable[..., Any],
    *,
    enough: int = 1,
) -> dict[str, Any]:
    """Open the gate, count over the window, stop the senders; `sender` is the function that these run.

    The window lasts until at least `enough` deliveries were seen: a system that
    needs a second for a publication would otherwise be judged by luck.

    Raises:
        ApplicationFailed: There was not one.
    """
    gate.open()
    sleep_until(gate.begun)
    times, before, begun = CpuTimes(pids, applications.pids), tallies.totals(), time.perf_counter()
    sleep_until(gate.ended)
    while tallies.totals()[1] - before[1] < enough and time.perf_counter() < gate.ended + EXTENSION_S_MAX:
        time.sleep(0.01)
    after, elapsed_s = tallies.totals(), time.perf_counter() - begun
    used = times.stop()
    memory_mib = resident_kib(pids) / 1024
    tallies.stop()
    applications.answers(sender)
    sent, seen = (end - start for end, start in zip(after, before, strict=True))
    if not seen:
        raise ApplicationFailed("not one delivery within the window")
    return {
        "counted_s": elapsed_s,
        "sent_per_s": sent / elapsed_s,
        "seen_per_s": seen / elapsed_s,
        "server_cpu_us": used["server_cpu_s"] / seen * 1e6,
        "client_cpu_us": used["client_cpu_s"] / seen * 1e6,
        "others_cpu_percent": used["others_cpu_percent"],
        "server_memory_mib": memory_mib,
    }


def faults(trials: Sequence[dict[str, Any]]) -> list[Figure]:
    """What no measurement may have."""
    return [
        Figure("missing or twice: messages", [float(found["missing_or_twice"]) for found in trials], "", at_most(0)),
        Figure("out of order: messages", [float(found["out_of_order"]) for found in trials], "", at_most(0)),
    ]


def note(trials: Sequence[dict[str, Any]]) -> str:
    """CPU time and memory, for the row of these trials."""
    server, client, memory = (
        max(found[field] for found in trials) for field in ("server_cpu_us", "client_cpu_us", "server_memory_mib")
    )
    return (
        f"CPU µs per delivery: server {server:.1f}, clients {client:.1f}; server {memory:,.0f} MiB"
        " (worst of all repetitions)"
    )
