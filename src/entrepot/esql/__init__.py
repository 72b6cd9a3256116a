# SPDX-License-Identifier: Apache-2.0
"""ESQL: the language of message flows, compiled to Python functions.

esql.lark   the grammar
syntax      a program as a tree
parsing/    text to that tree
checker/    everything that is wrong with a program, before it runs
compiler/   that tree to Python source, and to functions
runtime/    what the functions call: fields, values, casts, dates, SELECT, databases
program     a compiled program, ready to run on messages
"""

from __future__ import annotations

from entrepot.esql.program import (
    EsqlModule,
    Program,
    compile_condition,
    compile_files,
    compile_statements,
    compile_texts,
)
from entrepot.esql.runtime.run import Database, EsqlRun
from entrepot.esql.sql_database import SqlDatabase

DOORS = (
    "checker",
    "mistakes",
    "parsing",
    "parsing.words",
    "program",
    "runtime.statements",
    "sql_database",
    "syntax",
    "user_functions",
)
"""The modules that other rooms import; all others are this room's own (tests/tidy/test_doors.py)."""

__all__ = [
    "Database",
    "EsqlModule",
    "EsqlRun",
    "Program",
    "SqlDatabase",
    "compile_condition",
    "compile_files",
    "compile_statements",
    "compile_texts",
]
