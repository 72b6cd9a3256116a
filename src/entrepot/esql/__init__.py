# SPDX-License-Identifier: Apache-2.0
"""ESQL: the language of message flows, compiled to Python functions.

esql.lark   the grammar
syntax      a program as a tree
parsing     text to that tree
checker     everything that is wrong with a program, before it runs
compiler/   that tree to Python source, and to functions
runtime/    what the functions call: fields, values, casts, dates, SELECT, databases
"""
