"""The benchmark: what this package costs, beside a stated reference and the arithmetic floor.

`run.bench` measures the parts that `scale.PARTS` names, `text.table` and `figure.draw` show them.
Importing this package imports no torch: the command line reads its names.
"""
