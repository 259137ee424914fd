"""Experiments, tables, figures and claims of the chapter on one paper.

van der Maaten and Hannun: The Trade-Offs of Private Prediction.
"""
