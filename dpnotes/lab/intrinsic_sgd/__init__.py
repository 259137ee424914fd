"""Experiments, tables, figures and claims of the chapter on one paper.

Hyland and Tople: On the Intrinsic Privacy of Stochastic Gradient Descent.
"""
