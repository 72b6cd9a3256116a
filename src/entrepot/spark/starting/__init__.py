# SPDX-License-Identifier: Apache-2.0
"""From nothing to a running Spark: Java, its options, its JVM, and a session in it.

java           which Java there is to run Spark with
launching      the commands that start Spark's own processes
class_archive  Java's classes as its memory wants them, kept from one start to the next
settings       what we tell Spark, and why
quick_daemon   what Python's workers are forked from
driver         the JVM that a session lives in
session        a session, from start to end
folders        where we keep caches and private files
"""
