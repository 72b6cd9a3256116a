# SPDX-License-Identifier: Apache-2.0
"""One instance of a flow as a program, for `local_processes`: standard input says what to run, standard output answers.

What a flow's own functions print goes to standard error, since standard
output is the answer's.
"""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from entrepot.errors import EntrepotError, Fenced
from entrepot.flows.live.deployment import Deployment
from entrepot.flows.live.instance import run_instance
from entrepot.flows.live.supervision import InstancesFailed
from entrepot.flows.live.worker_process import WorkerProcess


def main() -> None:
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        asked = sys.stdin.buffer
        # Both come through a pipe that only our parent has.
        sys.path[:] = pickle.load(asked)  # noqa: S301
        deployment, number, attempt, parent = pickle.load(asked)  # noqa: S301
        pickle.dump(_answer(deployment, number, attempt, parent), answers)


def _answer(deployment: Deployment, number: int, attempt: int, parent: int) -> Any:
    process = WorkerProcess(deployment.message_s_max, is_own=True, parent=parent)
    try:
        return run_instance(deployment, number, attempt, process)
    except Fenced as error:
        # Its successor goes on.
        return {"fenced": True, "problem": error.what}
    except EntrepotError as error:
        return InstancesFailed(error.what)
    except Exception as error:
        return InstancesFailed(f"{type(error).__name__}: {error}", is_foreign=True)
    finally:
        process.close()


if __name__ == "__main__":
    main()
