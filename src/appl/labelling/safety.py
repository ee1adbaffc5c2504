"""Self-training believes its own labels; here its record is looked at before anyone believes it."""

from collections.abc import Sequence

from appl.labelling.left_out import LeftOut
from appl.method.algorithm2 import IterationRecord

SWALLOWED_SHARE = 0.3  # of the pile: one class took so much more than at the start
CHURN_SHARE = 0.15  # of the labels: so many still change at the end
LAST_ITERATIONS = 5


def collapse_reasons(
    records: Sequence[IterationRecord], termination: str, n_queries: int
) -> list[str]:
    """Say in plain words why an adaptation is not to be trusted; an empty list where it is.

    Labels change by iterations, so changes are counted among all `n_queries` that it knew. Where an
    iteration takes a part of these, a label was last looked at some iterations ago: as a share of
    that part, changes of several iterations would count as one's.
    """
    reasons = []
    if termination != "finished":
        reasons.append(f"the adaptation stopped: {termination}")
    if not records:
        return reasons
    first, last = records[0], records[-1]
    shares = zip(first.class_balance, last.class_balance, strict=True)
    gain = [after - before for before, after in shares]
    if max(gain) > SWALLOWED_SHARE:
        reasons.append(
            f"one class swallowed the pile: it grew by {max(gain):.0%} of all images "
            f"to {max(last.class_balance):.0%}"
        )
    churn = sum(record.n_label_changes for record in records[-LAST_ITERATIONS:])
    churn_share = churn / (len(records[-LAST_ITERATIONS:]) * max(n_queries, 1))
    if churn_share > CHURN_SHARE:
        reasons.append(f"labels kept changing: {churn_share:.0%} an iteration at the end")
    return reasons


def worse_than_frozen(adapted: LeftOut, frozen: LeftOut) -> str | None:
    """Say so where left-out examples fare clearly worse after the adaptation than before it."""
    n = len(frozen)
    if n == 0:
        return None
    lost = (frozen.scores.argmax(1) == frozen.class_ids) & (
        adapted.scores.argmax(1) != adapted.class_ids
    )
    won = (frozen.scores.argmax(1) != frozen.class_ids) & (
        adapted.scores.argmax(1) == adapted.class_ids
    )
    n_lost, n_won = int(lost.sum()), int(won.sum())
    # A sign test: what is lost beyond what is won must be more than chance takes once in twenty.
    if n_lost - n_won > max(1.0, 1.64 * (n_lost + n_won) ** 0.5):
        return (
            f"left-out examples were told apart worse after the adaptation ({adapted.accuracy:.0%} "
            f"right) than before it ({frozen.accuracy:.0%})"
        )
    return None
