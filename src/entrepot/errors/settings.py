# SPDX-License-Identifier: Apache-2.0
"""A setting, name or argument is wrong."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class SettingError(EntrepotError):
    code = "S00"


class InvalidSetting(SettingError):
    key: str
    value: str
    expected: str
    code = "S01"
    reason = 2046
    text = "{key} cannot be {value}"
    hint = "Expected: {expected}."


class LimitExceeded(SettingError):
    key: str
    value: int
    limit: int
    code = "S02"
    text = "{key} is {value}, the limit is {limit}"
    hint = "Stay within the limit; limits.py lists them all."


class UserLimitReached(SettingError):
    user: str
    wanted: int
    what_of: str
    limit: int
    keyword: str
    code = "S08"
    reason = 2017
    text = "{user} would hold {wanted} {what_of}, the limit is {limit}"
    hint = "End some of them, or let an administrator raise {keyword} with ALTER QMGR."


class InvalidName(SettingError):
    kind: str
    name: str
    code = "S03"
    reason = 2085
    text = "{name!r} is no valid name for a {kind}"
    hint = "A name has 1 to 48 characters out of A-Z a-z 0-9 . _ / %."


class InvalidArgument(SettingError):
    argument: str
    problem: str
    expected: str
    code = "S04"
    text = "argument {argument}: {problem}"
    hint = "Expected: {expected}."


class InvalidUrl(SettingError):
    url: str
    code = "S05"
    text = "{url!r} does not say where the queue manager is"
    hint = "Use embedded:PATH, memory:NAME, unix:PATH, mq://HOST:PORT/NAME?channel=NAME, or mqs:// for TLS."


class ExtraMissing(SettingError):
    what_for: str
    extra: str
    code = "S07"
    text = "{what_for} needs software that is not installed"
    hint = "Install it with pip install 'entrepot[{extra}]'."


class NoServer(SettingError):
    command: str
    code = "S06"
    text = "{command} needs the queue manager to run as a server"
    hint = "Start it with entrepot qm start."
