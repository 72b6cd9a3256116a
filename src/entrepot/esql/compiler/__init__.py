# SPDX-License-Identifier: Apache-2.0
"""ESQL to Python.

project          all files of a project: modules, routines, variables
routine          one function, and what its parts share: state, names, source, constants
statements       blocks and handlers; its parts: assignments, control, procedure_calls, fields, messages
expressions      values and conditions; its parts: paths, calls, field_functions, selects, databases, evaluation
jumps            LEAVE and ITERATE that Python cannot say itself
sql              conditions that a database can decide
vocabulary       the Python names that generated source may use
unsupported      what cannot be compiled
"""
