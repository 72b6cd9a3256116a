# SPDX-License-Identifier: Apache-2.0
"""Messages in every format that we read, and the models that describe them."""

from __future__ import annotations

from collections.abc import Callable

from hostile.loaders import LOADERS, require_loaded_or_refused
from hostile.readers import READERS, require_read_and_written_alike

from .target import Target

PER_SECOND = {"XML": 3000, "XMLNS": 3000, "XMLNSC": 3000, "SOAP": 2500, "JSON": 6000, "BLOB": 20000, "headers": 1500}


def _name(name: str) -> str:
    return name.lower().replace(" ", "-")


def _message_reader(name: str) -> Callable[[bytes], None]:
    return lambda data: require_read_and_written_alike(READERS[name], data)


def _model_loader(name: str) -> Callable[[bytes], None]:
    return lambda data: require_loaded_or_refused(LOADERS[name][0], data)


TARGETS = (
    *(
        Target(_name(name), _message_reader(name), reader.seeds, PER_SECOND.get(name, 3000), 2000)
        for name, reader in READERS.items()
    ),
    *(Target(f"model-{_name(name)}", _model_loader(name), seeds, 200) for name, (_, seeds) in LOADERS.items()),
)
