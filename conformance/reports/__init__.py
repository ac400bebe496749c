"""Reports of a run. Each renderer works from the lines of `results.jsonl` alone, never from the pack.

`model` reads the lines into what all of them show; `terminal`, `markdown`, `html`, `json_report` and
`csv_report` show it; `formats` knows them by name. Nothing is imported here: a command that prints to
the terminal does not pay for the templates of a page.
"""
