"""Experiments, tables, figures and claims of the chapter on one paper.

Jordon, Yoon and van der Schaar: Differentially Private Bagging.
"""
