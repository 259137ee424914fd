"""The ledger: every privacy claim of the four papers, its true status, and evidence that is computed when asked for."""

from dpnotes.claims import _bagging_baselines, bagging, dpbag, intrinsic_sgd, private_prediction
from dpnotes.claims._ledger import STATUSES, Claim, Evidence, Finding, findings, table

LEDGER: tuple[Claim, ...] = (
    *bagging.CLAIMS,
    *_bagging_baselines.CLAIMS,
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
