# SPDX-License-Identifier: Apache-2.0
"""MQSC, the language in which MQ's administrators define, alter and look at queues, channels and who may use them.

syntax        a script becomes statements
checks        a statement becomes a command, by the tables in commands, keywords and running
interpreter   a command acts on a queue manager, which is `Administered`, and is answered
dump          a queue manager becomes a script again
"""

from entrepot.server.mqsc.administered import Administered
from entrepot.server.mqsc.checks import only_reads
from entrepot.server.mqsc.dump import dump
from entrepot.server.mqsc.interpreter import Answer, check_script, require_ok, run_script
from entrepot.server.mqsc.keywords import require_valid

__all__ = ["Administered", "Answer", "check_script", "dump", "only_reads", "require_ok", "require_valid", "run_script"]
