# SPDX-License-Identifier: Apache-2.0
"""The thread of a session with listeners: gets their messages in turn and calls them back, one at a time."""

from __future__ import annotations

import logging
import threading

from entrepot.errors import EntrepotError
from entrepot.jms.reception import WAIT_S, Reception
from entrepot.jms.source import ConsumerSource
from entrepot.message import Message

_LOGGER = logging.getLogger("entrepot")

_TURN_S = 0.01
"""How long idle listeners wait for one another; a unit of work can wait at one queue only."""
_PAUSE_S_MIN = 0.02
_PAUSE_S_MAX = 1.0


class Dispatcher:
    """Begins with the first listener and ends with its session."""

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._listening: list[ConsumerSource] = []
        self._changed = threading.Event()
        self._pause_s = _PAUSE_S_MIN
        self._thread = threading.Thread(target=self._run, name="entrepot-jms", daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """Whether the caller is its thread."""
        return threading.current_thread() is self._thread

    def add(self, source: ConsumerSource) -> None:
        if source not in self._listening:
            self._listening = [*self._listening, source]
        self._changed.set()

    def release(self, source: ConsumerSource) -> None:
        """Return when the listener of a source that closes will not be called any more."""
        self._changed.set()
        while source in self._listening and self._thread.is_alive():
            source.released.wait(WAIT_S)

    def join(self) -> None:
        """Return when the thread has ended, because its session closes."""
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        idle = False
        while not self._reception.closing.is_set():
            listening = [source for source in self._listening if not self._drop_closed(source)]
            if not listening:
                self._changed.wait()
                self._changed.clear()
                continue
            wait_s = WAIT_S if len(listening) == 1 else _TURN_S if idle else 0.0
            idle = True
            for source in listening:
                if self._serve(source, wait_s):
                    idle = False
        self._reception.end()

    def _drop_closed(self, source: ConsumerSource) -> bool:
        if source.closing.is_set():
            self._drop(source)
        return source.closing.is_set()

    def _drop(self, source: ConsumerSource) -> None:
        self._listening = [other for other in self._listening if other is not source]
        source.released.set()

    def _serve(self, source: ConsumerSource, wait_s: float) -> bool:
        """Call a listener with the next message; False when none came in time."""
        if source.closing.is_set() or self._reception.closing.is_set():
            return False
        try:
            message = self._reception.get_in_unit(source, wait_s)
            if message is None:
                return False
            returned = self._call(source, message)
            if self._reception.called_back(returned=returned):
                self._pause_s = _PAUSE_S_MIN
            else:
                self._pause(source)
        except EntrepotError as error:
            self._tell(f"listener at {source.queue}", error)
            if not error.retryable:
                self._drop(source)
                return False
            self._pause(source)
        return True

    def _call(self, source: ConsumerSource, message: Message) -> bool:
        assert source.listener is not None
        try:
            source.listener(message)
        except Exception as error:  # it is the application's, and may raise anything
            self._tell(f"listener at {source.queue}, message {message.message_id.hex()}", error)
            return False
        return True

    def _pause(self, source: ConsumerSource) -> None:
        """What has just failed would fail again at once, as fast as this thread can."""
        source.closing.wait(self._pause_s)
        self._pause_s = min(self._pause_s * 2, _PAUSE_S_MAX)

    def _tell(self, where: str, error: Exception) -> None:
        if isinstance(error, EntrepotError):
            _LOGGER.warning("%s: %s", where, error)
        else:
            _LOGGER.warning("%s: %r", where, error, exc_info=error)
        if self._reception.on_error is not None:
            try:
                self._reception.on_error(error)
            except Exception:  # the application's too
                _LOGGER.exception("%s: on_error has failed", where)
