"""Grading many submissions: found in a folder, among files or by a roster, each in a process of its own.

`submissions` and `roster` say what is to be graded, `row` grades one, `pool` as many side by side as
there are cores. A submission is a stranger's: its file is neither imported nor parsed here.
"""
