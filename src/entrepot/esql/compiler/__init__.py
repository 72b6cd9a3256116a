# SPDX-License-Identifier: Apache-2.0
"""ESQL to Python.

names        what a name means, and what it is called in Python
paths        field references
expressions  values and conditions
selects      SELECT and ROW
statements   everything that ends with a semicolon
databases    what goes to a database
routine      one function
project      all files of a project: modules, routines, variables
"""
