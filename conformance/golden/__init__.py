"""Golden tensors: what the program makes of published cases, written down once, checked and handed out.

`build` is the only writer of `golden/`, `verify` recomputes it, `export` is for other languages. The
tolerances that grading needs are kept beside them, in `tolerances`.
"""
