# SPDX-License-Identifier: Apache-2.0
"""A server for tests: a queue manager that listens, on a thread of its own in this process."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from entrepot.daemon.server import Server, new_event_loop


class ServerThread:
    """`with ServerThread(path) as server: entrepot.connect(server.unix_url)`."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.server: Server | None = None
        self._failure: BaseException | None = None
        self._started = threading.Event()
        self._immediate = False
        self._thread = threading.Thread(target=self._run, name="entrepot-server", daemon=True)

    @property
    def unix_url(self) -> str:
        return f"unix:{self.path}"

    def port(self, listener: str) -> int:
        """The port that a listener with PORT(0) was given."""
        assert self.server is not None
        return int(self.server.listeners[listener].status()["PORT"])

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self, *, immediate: bool = True) -> None:
        """Stop the server; at once unless told otherwise."""
        if self.server is not None:
            self._ask_to_stop(self.server, immediate)
        self._thread.join()

    def _ask_to_stop(self, server: Server, immediate: bool) -> None:
        work = server.stop(immediate=immediate)
        try:
            asked = asyncio.run_coroutine_threadsafe(work, server.registry.loop)
        except RuntimeError:
            work.close()  # The loop is closed: the server has stopped by itself.
            return
        # A server that stops by itself right now may never come to what was asked.
        while self._thread.is_alive() and not asked.done():
            self._thread.join(0.01)
        if asked.done() and not asked.cancelled():
            asked.result()

    def run(self, work: Any) -> Any:
        """Run a coroutine on the server's loop and wait for it."""
        assert self.server is not None
        return asyncio.run_coroutine_threadsafe(work, self.server.registry.loop).result(60)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        try:
            self.server = await Server.start(self.path)
        except BaseException as error:
            self._failure = error
            self._started.set()
            return
        self._started.set()
        await self.server.stopped()
