# SPDX-License-Identifier: Apache-2.0
"""Java, and Spark that runs on it: not there, not fit, not started."""

from __future__ import annotations

from entrepot.errors.root import EntrepotError


class SparkError(EntrepotError):
    code = "J00"


class JavaNotFound(SparkError):
    version_min: int
    code = "J01"
    text = "Spark needs Java {version_min} or later, and there is none: JAVA_HOME is not set and no java is on the PATH"
    hint = "Install one, as openjdk-{version_min}-jre-headless of Debian, or: pip install 'entrepot[java]'."


class JavaTooOld(SparkError):
    path: str
    version: str
    version_min: int
    code = "J02"
    text = "Spark needs Java {version_min} or later, and {path} is {version}"
    hint = "Set JAVA_HOME to a later one, or: pip install 'entrepot[java]'."


class JavaUnusable(SparkError):
    path: str
    problem: str
    code = "J03"
    text = "{path} does not run: {problem}"
    hint = "Mend it, set JAVA_HOME to another Java, or: pip install 'entrepot[java]'."


class SparkNotStarted(SparkError):
    problem: str
    log: str
    code = "J04"
    text = "Spark did not start: {problem}"
    hint = "Its last words: {log}"


class SparkMasterUnreachable(SparkError):
    master: str
    problem: str
    code = "J05"
    retryable = True
    text = "no Spark master answers at {master}: {problem}"
    hint = "Start the cluster, or mend the address; without one Spark runs in this machine's own processes."


class SparkSessionOpen(SparkError):
    master: str
    code = "J06"
    text = "this process has a Spark session already, at {master}, and cannot have two"
    hint = "Use that session, or close it before."


class SparkGone(SparkError):
    instance: str
    code = "J07"
    retryable = True
    text = "{instance}: the process of Spark that has started it is gone"
    hint = "Its last unit of work has ended. Spark, or the program that runs the flow, begins it again."
