# SPDX-License-Identifier: Apache-2.0
"""A flow at work, whoever runs its instances: start, watch, stop, redeploy.

Exactly once is the queue manager's doing, not the runner's. A runner finds a
place for each instance, starts it again when it dies, and keeps instances
apart. Because what was cancelled may go on for seconds, every attempt works
under a claim with an epoch, and a later one fences those before.

`local_processes` runs instances in processes of this machine; `spark.live`
in tasks of Spark.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, TypedDict, Unpack

from entrepot.client.blocking import Connection, connect
from entrepot.engine.claims import Claim
from entrepot.errors import ConnectFailed, ConnectionLost, EntrepotError, FlowEnded
from entrepot.flows.definition import FlowDefinition
from entrepot.flows.live.deployment import ATTEMPTS_MAX, MESSAGE_S_MAX, Deployment
from entrepot.flows.live.instance import REPLACED, STOP
from entrepot.flows.live.readiness import require_ready

_LOGGER = logging.getLogger("entrepot")

START_S_MAX = 60.0
"""How long instances may take to begin, unless said otherwise."""
_ASK_S = 0.05
_AGAIN_S = 0.5
_AGAIN_S_MAX = 30.0
_WATCH_S = 1.0
_STOP_S = 30.0
"""An instance that was told to stop and has not ended after so long is cancelled and fenced."""
_FENCED_S = 5.0
"""So long instances that another run has fenced have to see it, before they are cancelled."""
_CANCEL_S = 15.0
_STEADY_S = 60.0
"""What has run for so long was not ended by what ended it the time before."""
_UNIX = "unix:"


class InstancesFailed(Exception):
    """A runner gives up on the instances of a flow; those that were left have ended."""

    def __init__(self, reason: str, *, is_foreign: bool = False, is_final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_foreign = is_foreign
        """Python has raised something in an instance, rather than died, and it was no error of ours."""
        self.is_final = is_final
        """This runner will run nothing any more."""


class InstanceRunner(Protocol):
    """Runs the instances of one flow."""

    def require_room(self, instances: int) -> None:
        """
        Raises:
            InstancesTooMany: So many would not run at the same time.
        """

    def new_thread(self, work: Callable[[], None], name: str) -> threading.Thread:
        """A thread from which `run` may be called."""

    def run(self, deployment: Deployment) -> list[dict[str, Any]]:
        """Run all instances until they have ended; what each answers.

        Raises:
            InstancesFailed: One of them does not come to an end of its own, however often it is tried.
        """

    def cancel(self, deployment: Deployment) -> None:
        """End the instances of a deployment without asking them; from any thread."""


class FlowOptions(TypedDict, total=False):
    """How a flow is to run; what is left out is as `Deployment` has it."""

    instances: int | None
    """How many; what the flow says, unless given."""
    group: str
    """The execution group; the same flow may run in several."""
    databases: Mapping[str, str] | None
    """SQLAlchemy's URL of each data source; the name "" stands for all that have no other."""
    batch_max: int
    """Messages that may share a unit of work."""
    message_s_max: float
    """How long a message may keep its instance, before the instance's process is ended; 0: for ever."""
    node_statistics: bool
    user_trace: str
    """A file for the user trace, to which each instance adds its number."""
    user: str
    password: str


class SupervisedFlow:
    """A flow at work, from start to stop."""

    def __init__(self, runner: InstanceRunner, flow: FlowDefinition, url: str, **options: Unpack[FlowOptions]) -> None:
        """
        Raises:
            FlowInvalid, InvalidSetting: The flow, or what it is to run with, is wrong.
            InstancesTooMany: The runner has room for fewer.
        """
        self._runner = runner
        trace = options.get("user_trace")
        self._deployment = Deployment(
            flow,
            _from_anywhere(url),
            databases=dict(options.get("databases") or {}),
            group=options.get("group", "default"),
            instances=options.get("instances") or flow.instances,
            batch_max=options.get("batch_max", 100),
            message_s_max=options.get("message_s_max", MESSAGE_S_MAX),
            node_statistics=options.get("node_statistics", False),
            user_trace=str(Path(trace).resolve()) if trace else "",
            user=options.get("user", ""),
            password=options.get("password", ""),
        )
        runner.require_room(self._deployment.instances)
        self._connection: Connection = connect(
            url,
            application=f"flow {flow.name} (driver)",
            user=self._deployment.user,
            password=self._deployment.password,
        )
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._error: EntrepotError | None = None
        self._trouble = ""
        """Why its instances have failed last."""
        self.restarts = 0
        """How often its instances have failed, and were begun again."""
        self._last: list[dict[str, Any]] = []

    # --- start and stop -----------------------------------------------------------------------

    def start(self) -> Self:
        """Check everything that can be known beforehand, take over from its last run, and begin.

        Raises:
            FlowInvalid, FlowNotReady: It cannot run as it is; says all that is missing. Nothing was begun.
        """
        require_ready(self._deployment.flow, self._deployment.databases, self._connection)
        self._take_over()
        self._stopping.clear()
        self._error = None
        self._thread = self._runner.new_thread(self._supervise, f"flow {self.name}")
        self._thread.start()
        return self

    @property
    def name(self) -> str:
        return self._deployment.flow.name

    def wait_until_running(
        self, timeout_s: float = START_S_MAX, on_progress: Callable[[int], None] = lambda _: None
    ) -> None:
        """Return when every instance is at work.

        Raises:
            FlowEnded: It ended before that.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            ready = sum(claim.connected for claim in self._claims())
            on_progress(ready)
            if ready >= self._deployment.instances:
                return
            if not self.is_running:
                raise self._error or FlowEnded(self.name, "it has ended already")
            if time.monotonic() >= deadline:
                problem = f"{ready} of {self._deployment.instances} instances have begun within {timeout_s:g} s"
                raise FlowEnded(self.name, f"{problem}; {self._trouble}" if self._trouble else problem)
            time.sleep(_ASK_S)

    @property
    def is_running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the flow has ended, by whosoever's order; whether it has.

        Raises:
            EntrepotError: What it ended with, if that was no order.
        """
        if self._thread is not None:
            self._thread.join(timeout_s)
        if self.is_running:
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self, timeout_s: float = _STOP_S) -> None:
        """Let every instance finish its unit of work and end; one that does not in time is cancelled and fenced.

        Returns within `timeout_s` and 15 s.
        """
        self._stopping.set()
        if self._thread is None:
            return
        deadline = time.monotonic() + timeout_s
        while self._thread.is_alive() and time.monotonic() < deadline:
            # Again and again: an instance that is only just starting has not heard the first one.
            with contextlib.suppress(ConnectionLost, ConnectFailed):
                self._connection.instruct(self._deployment.claim_prefix, STOP)
            self._thread.join(_ASK_S)
        if self._thread.is_alive():
            self.cancel()
            self._thread.join(_CANCEL_S)

    def cancel(self) -> None:
        """End its instances without asking them, and fence them: Spark lets cancelled tasks go on for seconds."""
        self._stopping.set()
        _LOGGER.warning("flow %s: instances that have not ended by themselves are cancelled and fenced", self.name)
        self._runner.cancel(self._deployment)
        try:
            self._fence(self._deployment.run + 1)
        except (ConnectionLost, ConnectFailed) as error:
            # One that outlives this commits nothing while there is no answer, and is ended within seconds.
            _LOGGER.warning("flow %s: its instances cannot be fenced: %s", self.name, error)

    def _fence(self, run: int) -> None:
        for instance in range(self._deployment.instances):
            self._connection.retire(self._deployment.claim_name(instance), run * ATTEMPTS_MAX)

    def redeploy(self, flow: FlowDefinition, *, timeout_s: float = 30.0) -> None:
        """Go on with another version of the flow; no message is lost or worked on twice.

        Raises:
            FlowInvalid, FlowNotReady: The old one goes on.
        """
        require_ready(flow, self._deployment.databases, self._connection)
        self.stop(timeout_s)
        self._deployment = replace(self._deployment, flow=flow)
        self.start()

    def close(self) -> None:
        self.stop()
        self._connection.close()

    def __enter__(self) -> Self:
        try:
            return self if self.is_running else self.start()
        except BaseException:
            self._connection.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what it does -------------------------------------------------------------------------

    def status(self) -> list[dict[str, Any]]:
        """What each instance has reported last."""
        return claims_as_data(self._claims())

    def _claims(self) -> list[Claim]:
        lowest = self._deployment.run * ATTEMPTS_MAX
        found = self._connection.claims(self._deployment.claim_prefix)
        return [claim for claim in found if claim.epoch >= lowest]

    def _take_over(self) -> None:
        """Let a run that is still at work end in good order; afterwards its number is too low for anything."""
        prefix = self._deployment.claim_prefix
        deadline = time.monotonic() + 5.0
        while any(claim.connected for claim in self._connection.claims(prefix)) and time.monotonic() < deadline:
            self._connection.instruct(prefix, REPLACED)
            time.sleep(_ASK_S)
        self._begin_run()

    def _begin_run(self) -> None:
        epoch = self._connection.next_epoch(self._deployment.claim_prefix)
        self._deployment = replace(self._deployment, run=epoch // ATTEMPTS_MAX + 1)
        self._fence(self._deployment.run)

    # --- its instances ------------------------------------------------------------------------

    def _supervise(self) -> None:
        """Run the instances, and again when the runner gives up on them: a flow outlives any number of crashes."""
        pause_s = _AGAIN_S
        is_first = True
        while True:
            begun = time.monotonic()
            try:
                self._last = self._run_watched()
                if not self._is_to_go_on(is_first):
                    return
            except InstancesFailed as error:
                if self._stopping.is_set():
                    return
                self._trouble = error.reason
                _LOGGER.warning("flow %s: its instances have failed: %s", self.name, self._trouble)
                if error.is_final:
                    self._error = FlowEnded(self.name, self._trouble)
                    return
                if is_first and error.is_foreign and time.monotonic() - begun < _STEADY_S:
                    # A killed instance may begin again; what cannot even be loaded there never will.
                    self._error = FlowEnded(self.name, f"its tasks fail: {self._trouble}")
                    return
            is_first = False
            if time.monotonic() - begun > _STEADY_S:
                pause_s = _AGAIN_S
            while True:
                if self._stopping.wait(pause_s):
                    return
                pause_s = min(pause_s * 2, _AGAIN_S_MAX)
                try:
                    self._begin_again()
                    break
                except (ConnectionLost, ConnectFailed) as error:
                    _LOGGER.warning("flow %s: %s", self.name, error)
                except EntrepotError as error:
                    self._error = error
                    return

    def _is_to_go_on(self, is_first: bool) -> bool:
        """Whether instances that have all ended are to run again; if not, and it was not stopped here, why."""
        if self._stopping.is_set():
            return False
        if any(result.get("fenced") or result.get("order") == REPLACED for result in self._last):
            self._error = FlowEnded(self.name, "another run of it has taken over")
            return False
        errors = [result["error"] for result in self._last if "error" in result]
        if not errors:
            return False
        if is_first:
            self._error = errors[0]
            return False
        # It has worked before, so what keeps it from that may pass.
        _LOGGER.warning("flow %s: %s", self.name, errors[0])
        return True

    def _begin_again(self) -> None:
        """
        Raises:
            FlowEnded: Another run was begun meanwhile, which is the one that counts.
        """
        ours = (self._deployment.run + 1) * ATTEMPTS_MAX
        if any(claim.epoch >= ours for claim in self._connection.claims(self._deployment.claim_prefix)):
            raise FlowEnded(self.name, "another run of it has taken over")
        self.restarts += 1
        self._begin_run()

    def _run_watched(self) -> list[dict[str, Any]]:
        ended = threading.Event()
        threading.Thread(target=self._watch, args=(ended,), name=f"watch {self.name}", daemon=True).start()
        try:
            return self._runner.run(self._deployment)
        finally:
            ended.set()

    def _watch(self, ended: threading.Event) -> None:
        """Cancel instances that do not hear what others hear: an order to stop, or that another run has fenced them."""
        next_run = (self._deployment.run + 1) * ATTEMPTS_MAX
        late_at: dict[bool, float] = {}
        while not ended.wait(_WATCH_S):
            try:
                claims = self._connection.claims(self._deployment.claim_prefix)
            except EntrepotError:
                continue
            is_fenced = any(claim.epoch >= next_run for claim in claims)
            is_told = any(claim.order == STOP for claim in claims)
            now = time.monotonic()
            for is_so, is_stop, patience_s in ((is_told, True, _STOP_S), (is_fenced, False, _FENCED_S)):
                if not is_so:
                    late_at.pop(is_stop, None)
                elif now >= late_at.setdefault(is_stop, now + patience_s):
                    if is_told:
                        self.cancel()
                    else:
                        self._runner.cancel(self._deployment)
                    return


def claims_as_data(claims: Iterable[Claim]) -> list[dict[str, Any]]:
    """Claims of flows as plain data."""
    return [
        {
            "name": claim.name,
            "epoch": claim.epoch,
            "connected": claim.connected,
            "renewed_at": claim.renewed_at,
            **dict(claim.status or {}),
        }
        for claim in claims
    ]


def _from_anywhere(url: str) -> str:
    """A URL that means the same in processes with another working folder."""
    return f"{_UNIX}{Path(url.removeprefix(_UNIX)).resolve()}" if url.startswith(_UNIX) else url
