# SPDX-License-Identifier: Apache-2.0
"""The broker document's measurements: its flows, its messages, and what runs them.

`cases` (what is measured), `messages` (what comes in), `deploying` (a case's
flows at work on a Spark), `engine` (the same in a process tree of its own),
`database` (what the Database nodes talk to). The flows are the .yaml files,
cases.yaml names them all, and csim.yaml is the model of the conversions.
"""
