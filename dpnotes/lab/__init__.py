"""The workshop behind the book: experiments and their stored rows, the ledger of claims, chapters, the command line.

It is of no use without a checkout of the repository, and nothing of the library imports it.
"""

from dpnotes.lab.store import experiment

__all__ = ["experiment"]
