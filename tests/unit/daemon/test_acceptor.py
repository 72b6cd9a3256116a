# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import resource

import pytest

from entrepot.daemon.acceptor import connections_max, listen_at


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (100, 100, 36),
        (1024, 1024, 896),
        (1024, 20_000, 17_500),  # as many as the administrator allows, not as many as the shell asked for
        (10, 10, 1),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 1_000_000),
    ],
)
def test_connections_leave_descriptors_for_the_log(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, expected: int
) -> None:
    changed: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: changed.append(limits))
    assert connections_max() == expected
    assert changed == ([(hard, hard)] if soft != hard else [])


def test_sockets_listen_at_all_that_a_name_stands_for_and_leave_nothing_when_one_fails() -> None:
    first = listen_at("127.0.0.1", 0, 5)
    port = first[0].getsockname()[1]
    try:
        assert not first[0].getblocking()
        with pytest.raises(OSError, match="in use"):
            listen_at("127.0.0.1", port, 5)
    finally:
        first[0].close()
    for each in listen_at("127.0.0.1", port, 5):
        each.close()
    with pytest.raises(OSError):  # nobody has this address
        listen_at("192.0.2.1", 0, 5)
