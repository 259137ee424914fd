"""The ledger of the main privacy claims of the four papers, with their true status
and evidence computed on request.
"""

from dpnotes.lab import _claim
from dpnotes.lab._claim import STATUSES as STATUSES
from dpnotes.lab._claim import Claim as Claim
from dpnotes.lab._claim import Evidence as Evidence
from dpnotes.lab._claim import Finding as Finding
from dpnotes.lab._claim import findings as findings
from dpnotes.lab._claim import table as table

# each module registers its evidence
from dpnotes.lab.bagging import claims as _bagging  # noqa: F401
from dpnotes.lab.dpbag import claims as _dpbag  # noqa: F401
from dpnotes.lab.intrinsic_sgd import claims as _intrinsic_sgd  # noqa: F401
from dpnotes.lab.private_prediction import claims as _private_prediction  # noqa: F401

CHAPTERS = ("bagging", "private_prediction", "dpbag", "intrinsic_sgd")
LEDGER = tuple(
    sorted(
        (claim for name in CHAPTERS for claim in _claim.read(name)),
        key=lambda claim: claim.number,
    )
)


def of_paper(paper: str) -> tuple[Claim, ...]:
    """Select the claims of one paper by its key in the bibliography.

    Raises
    ------
    ValueError
        If the ledger has no claim of that paper.
    """
    claims = tuple(claim for claim in LEDGER if claim.paper == paper)
    if not claims:
        known = ", ".join(sorted({repr(claim.paper) for claim in LEDGER}))
        raise ValueError(f"paper must be one of {known}, got paper={paper!r}")
    return claims
