# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrepot.errors import InvalidSetting
from entrepot.server.security.addresses import fits, require_pattern, width
from folding import for_each


@for_each(
    ("pattern", "fitting", "others"),
    [
        ("*", ["10.0.0.1", "::1", "unix", "unix:/x", "", "nonsense"], []),
        ("192.168.*", ["192.168.0.1", "192.168.255.255", "::ffff:192.168.3.4"], ["192.169.0.1", "::1", "unix", ""]),
        ("192.0.*.2", ["192.0.7.2"], ["192.0.7.3"]),
        ("192.*.2", ["192.1.2.2", "192.9.9.2"], ["192.9.9.3"]),
        ("*.2", ["1.1.1.2"], ["1.1.1.3"]),
        ("10.0.0.1-20", ["10.0.0.1", "10.0.0.20", "10.0.0.7"], ["10.0.0.0", "10.0.0.21", "10.0.1.7"]),
        ("10.0-1.*.5-5", ["10.1.9.5"], ["10.2.9.5", "10.1.9.6"]),
        ("10.0.0.0/8", ["10.255.0.1", "::ffff:10.1.1.1"], ["11.0.0.1", "::1"]),
        ("10.0.0.7", ["10.0.0.7", "::ffff:10.0.0.7", "::FFFF:a00:7"], ["10.0.0.70", "10.0.0.6"]),
        ("::ffff:10.0.0.7", ["10.0.0.7"], ["10.0.0.8"]),
        ("::ffff:10.0.0.0/104", ["10.9.9.9"], ["11.0.0.1"]),
        ("::ffff:0:0/96", ["0.0.0.0", "255.255.255.255", "::ffff:10.0.0.7"], ["::1", "::fffe:0:0", "unix"]),
        ("::ffff:10.0.0.7/128", ["10.0.0.7", "::ffff:10.0.0.7"], ["10.0.0.6", "::a00:7"]),
        ("::/0", ["::1", "2001:db8::1"], ["10.0.0.7"]),
        ("0.0.0.0/0", ["10.0.0.7", "::ffff:10.0.0.7"], ["::1"]),
        ("0-255.*", ["0.0.0.0", "255.255.255.255"], ["::1"]),
        ("*.254-255", ["1.2.3.254", "1.2.3.255"], ["1.2.3.253"]),
        ("*:fffe-ffff", ["::fffe", "::ffff"], ["::fffd", "::1:0"]),
        ("a-c:*", ["a::", "B::1", "c:ffff::"], ["9::", "d::"]),
        ("2001:db8::1", ["2001:DB8:0:0::1", "2001:db8::1%eth0"], ["2001:db8::2"]),
        ("2001:db8:*", ["2001:db8::1", "2001:db8:ffff::"], ["2001:db9::1", "10.0.0.1"]),
        ("2001:*:1", ["2001:db8::1", "2001::1"], ["2001::2"]),
        ("2001:db8:0:0:0:0:0:0-8", ["2001:db8::8"], ["2001:db8::9"]),
        ("2001:db8::/32", ["2001:db8:1::"], ["2001:db9::"]),
        ("::1", ["::1"], ["127.0.0.1"]),
        ("unix", ["unix", "unix:/run/qm1"], ["10.0.0.1", ""]),
    ],
)
def test_pattern_fits(pattern: str, fitting: list[str], others: list[str]) -> None:
    assert [address for address in fitting if not fits(pattern, address)] == []
    assert [address for address in others if fits(pattern, address)] == []


@for_each(
    "pattern",
    ["", "192.168", "192.168.", "1.2.3.4.5", "1.2.3.256", "1.2.3.9-1", "1.2.3.-", "10.0.0.1/8", "10.0.0.0/33", "x",
     "host.example.com", "192.16*.1.1", "*.1.*", "1.2.3.4 ", "2001:db8::*", "12345:*", "1.2.3.4-5-6", "١.2.3.*",
     "1.2.3.4.*", "*.1.2.3.4", "1.2.3.a", "a.*", "*.0001", "*.256", "1:2:3:4:5:6:7:8:*", "*:g", "*:00001", "*:2-1",
     "::ffff:0:0/95", "fe80::1%eth0", "1.2.3.4,5.6.7.8", "10.0.0.0/8/8"],
)  # fmt: skip
def test_what_is_no_pattern_is_refused_and_fits_nothing_silently(pattern: str) -> None:
    with pytest.raises(InvalidSetting):
        require_pattern(pattern)
    for address in ("10.0.0.1", "::1", "unix"):
        with pytest.raises(InvalidSetting):
            fits(pattern, address)


def test_the_narrower_pattern_is_the_more_specific() -> None:
    ordered = ["10.0.0.7", "10.0.0.1-20", "10.0.0.*", "10.0.*", "10.0.0.0/8", "*.7.*.*", "2001:db8:*", "*"]
    assert [width(pattern) for pattern in ordered] == sorted(width(pattern) for pattern in ordered)
    assert width("unix") == width("::1") == 1
    assert width("10.0.0.1-20") == 20
    assert width("10.0.0.0/8") == width("::ffff:10.0.0.0/104") == width("10.*") == 2**24
    assert width("2001:db8:*") == width("2001:db8::/32") == 2**96
    assert width("*:*:*:*:*:*:*:*") == width("*")


@given(st.ip_addresses())
def test_an_address_fits_itself_and_its_own_block_and_nothing_beside(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert fits(str(address), str(address))
    assert fits(f"{address}/{address.max_prefixlen}", str(address))
    beside = type(address)(int(address) ^ 1)
    assert not fits(str(address), str(beside))
