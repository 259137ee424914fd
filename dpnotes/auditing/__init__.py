"""Audits of training procedures: lower bounds on their privacy loss, and tests of the
guarantees that they claim.

Each bound holds with a stated confidence. Surviving an audit does not prove a claim.
"""

from dpnotes import _extras

_extras.require("learn", part="dpnotes.auditing")

from dpnotes.auditing._audit import audit as audit
from dpnotes.auditing._betting import Betting as Betting
from dpnotes.auditing._report import AuditReport as AuditReport
from dpnotes.auditing._scores import (
    audit_scores as audit_scores,
    runs_needed as runs_needed,
)
