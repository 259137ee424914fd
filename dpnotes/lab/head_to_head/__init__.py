"""Tables of the chapter Head to head."""

from dpnotes.lab.head_to_head import tables as tables
