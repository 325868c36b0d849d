"""Facts turned into words: pure functions of what was read and of `now`.

A page at 3 am is read in five seconds. Which sentence stands largest, what the
machine does and what follows is therefore decided here, in plain functions with
tests, and not in templates.
"""
