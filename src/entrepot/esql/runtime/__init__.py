# SPDX-License-Identifier: Apache-2.0
"""What a compiled ESQL program calls while it runs.

type_names      what ESQL calls the type of a Python value
operators       + - * / || and NOT
comparing       = < LIKE IN BETWEEN IS
casting         CAST; the tables are in casts_to_text, casts_to_numbers and casts_to_dates
number_formats  FORMAT of numbers; datetime_formats, of dates
dates           dates and times: text, zones, arithmetic; intervals, likewise
functions       the table of functions, which are in strings, numbers and date_functions
"""
