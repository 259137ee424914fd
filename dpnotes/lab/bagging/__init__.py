"""Experiments, tables, figures and claims of the chapter on one paper.

Liu, Jia and Gong: On the Intrinsic Differential Privacy of Bagging.
"""
