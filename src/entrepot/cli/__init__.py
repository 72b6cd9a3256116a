# SPDX-License-Identifier: Apache-2.0
"""The command line: one file a command or group; main.py puts them together.

arguments    what people type becomes paths, sizes, ids and times, or a clear refusal
opening      a queue manager for the time of one command
output       answers for people and for programs, and errors as advice
messages     how messages look
"""
