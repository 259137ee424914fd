"""What this package claims of its speed, its accuracy and its bounds, measured beside
others.

``python -m benchmarks`` measures the speed claims; ``python -m benchmarks.utility``,
``.noise``, ``.auditing`` and ``.tightness`` make one table of the book each. All of
them print; tracked files change with ``--keep`` only.
"""
