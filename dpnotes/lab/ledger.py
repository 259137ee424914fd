"""The ledger: every privacy claim of the four papers, its true status, and evidence that is computed when asked for."""

from dpnotes.lab._claim import STATUSES, Claim, Evidence, Finding, findings, table
from dpnotes.lab.bagging import claims as bagging
from dpnotes.lab.dpbag import claims as dpbag
from dpnotes.lab.intrinsic_sgd import claims as intrinsic_sgd
from dpnotes.lab.private_prediction import claims as private_prediction

LEDGER: tuple[Claim, ...] = (
    *bagging.CLAIMS,
    *private_prediction.CLAIMS,
    *dpbag.CLAIMS,
    *intrinsic_sgd.CLAIMS,
)


def of_paper(paper: str) -> tuple[Claim, ...]:
    """Claims of one paper, by its key in the bibliography.

    Raises
    ------
    ValueError
        If the ledger has no claim of such a paper.
    """
    claims = tuple(claim for claim in LEDGER if claim.paper == paper)
    if not claims:
        known = ", ".join(sorted({repr(claim.paper) for claim in LEDGER}))
        raise ValueError(f"paper must be one of {known}, got paper={paper!r}")
    return claims


__all__ = ["LEDGER", "STATUSES", "Claim", "Evidence", "Finding", "findings", "of_paper", "table"]
