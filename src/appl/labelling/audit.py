"""The audit of accepted labels: which ones to look at, and how many of all can be wrong after it.

Arithmetic only: no file, no picture. A sample is drawn in strata of confidence, somebody says of
each label in it whether it is right, and a certificate says what that means for all accepted ones.

The interval. Strata have equal sizes, and equally many labels are drawn from each, without
replacement. So the number of wrong labels in the sample is a sum of independent hypergeometric
ones. Each of these is a sum of independent yes-or-no draws (Vatutin and Mikhailov, 1982), and may
be written with one draw for each label looked at, or one for each wrong label there is. Among all
sums of independent yes-or-no draws of one mean, none leaves that mean (by one or more) as easily
as the binomial, where all have one chance (Hoeffding, 1956, theorem 4). So the binomial's tails
are upper bounds of ours, however errors crowd in a stratum or a class, and the Clopper–Pearson
interval holds. Of both ways of writing the smaller tail is taken: the second knows that the labels
are finite, and leaves no width when all were looked at. Strata differ in size by one, and the
drawn share with them; each end of the interval takes the share that makes it wider.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import numpy as np
from scipy.special import bdtr, bdtrc

from appl.core.seeds import seed_of

CONFIDENCE = 0.95
MOST_STRATA = 5
LEAST_IN_STRATUM = 20
LEAST_OF_CLASS = 10  # looked at, for an interval of its own

Verdict = Literal["right", "wrong", "unsure"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Sample:
    """Which of the accepted labels to look at, by their number; the least sure stratum is 0."""

    chosen: tuple[int, ...]
    strata: tuple[int, ...]  # of each chosen one
    sizes: tuple[int, ...]  # accepted labels in each stratum

    @property
    def design(self) -> "Design":
        """How many were drawn from how many."""
        counts = Counter(self.strata)
        return Design(self.sizes, tuple(counts[stratum] for stratum in range(len(self.sizes))))


@dataclass(frozen=True)
class Design:
    """How many accepted labels each stratum holds, and how many of them are looked at."""

    sizes: tuple[int, ...]
    looked: tuple[int, ...]

    @property
    def n_accepted(self) -> int:
        """All accepted labels."""
        return sum(self.sizes)

    @property
    def n_looked(self) -> int:
        """All that are looked at."""
        return sum(self.looked)

    @property
    def drawn_shares(self) -> tuple[float, float]:
        """The least and the largest share of a stratum that is looked at."""
        shares = [looked / size for looked, size in zip(self.looked, self.sizes, strict=True)]
        return min(shares), max(shares)


@dataclass(frozen=True)
class StratumCount:
    """What was found among labels of similar confidence."""

    least_confidence: float
    most_confidence: float
    n_accepted: int
    n_looked: int
    n_wrong: int
    n_unsure: int


@dataclass(frozen=True)
class ClassCount:
    """What was found in one class; without an interval where too few were looked at."""

    name: str
    n_accepted: int
    n_looked: int
    n_wrong: int
    n_unsure: int
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Certificate:
    """What an audit says of the wrong labels among the accepted ones; shares are 0 to 1.

    `low` and `high` are the interval, `at_most` the bound on one side that a promise needs; each
    holds in 95 of 100 audits, for a sample whose size was chosen before looking. A label that
    nobody could judge counts as wrong above and as right below.
    """

    n_accepted: int
    n_looked: int
    n_wrong: int
    n_unsure: int
    share: float  # the estimate
    low: float
    high: float
    at_most: float
    wanted: float
    n_more: int  # to look at, if none of them is wrong, until at_most is wanted
    n_more_at_this_rate: int | None  # if wrong ones go on as often; None: never
    n_looks: int  # samples read; each after the first was drawn knowing the ones before
    confidence: float
    strata: tuple[StratumCount, ...]
    classes: tuple[ClassCount, ...]

    @property
    def is_kept(self) -> bool:
        """Whether the share that was wanted is shown."""
        return self.at_most <= self.wanted

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self) | {"is_kept": self.is_kept}

    @classmethod
    def of_dict(cls, values: dict[str, Any]) -> "Certificate":
        """Read what `to_dict` gave."""
        own = {name: values[name] for name in cls.__dataclass_fields__}
        own["strata"] = tuple(StratumCount(**entry) for entry in own["strata"])
        own["classes"] = tuple(ClassCount(**entry) for entry in own["classes"])
        return cls(**own)


def plan(n_accepted: int, n: int) -> Design:
    """Say how many to look at in each stratum: `n`, or the next number that all strata share."""
    n_strata = min(max(n_accepted // LEAST_IN_STRATUM, 1), MOST_STRATA)
    least, n_larger = divmod(n_accepted, n_strata)
    sizes = tuple(least + (stratum < n_larger) for stratum in range(n_strata))
    each = -(-min(n, n_accepted) // n_strata)
    return Design(sizes, tuple(min(each, size) for size in sizes))


def draw_sample(confidences: Sequence[float], n: int, seed: int) -> Sample:
    """Draw accepted labels to look at; a larger sample of the same seed holds the smaller one.

    Strata are cut by rank of confidence; labels of equal confidence are put in an order by chance.
    """
    generator = np.random.default_rng(seed_of("audit", seed))
    design = plan(len(confidences), n)
    ties = generator.permutation(len(confidences))
    by_confidence = np.lexsort((ties, np.asarray(confidences)))
    chosen: list[int] = []
    strata: list[int] = []
    end = 0
    for stratum, (size, looked) in enumerate(zip(design.sizes, design.looked, strict=True)):
        members = by_confidence[end : end + size]
        end += size
        chosen += generator.permutation(members)[:looked].tolist()
        strata += [stratum] * looked
    return Sample(tuple(chosen), tuple(strata), design.sizes)


def most_wrong(n_wrong: int, design: Design, alpha: float) -> int:
    """Return the largest number of wrong labels among the accepted that the sample allows.

    With fewer than that many it is too low with a chance of at most `alpha`.
    """
    low, high = n_wrong, design.n_accepted - design.n_looked + n_wrong
    while low < high:
        middle = (low + high + 1) // 2
        if _chance_of_so_few(n_wrong, middle, design) > alpha:
            low = middle
        else:
            high = middle - 1
    return low


def fewest_wrong(n_wrong: int, design: Design, alpha: float) -> int:
    """Return the smallest number of wrong labels among the accepted that the sample allows."""
    low, high = n_wrong, design.n_accepted - design.n_looked + n_wrong
    while low < high:
        middle = (low + high) // 2
        if _chance_of_so_many(n_wrong, middle, design) > alpha:
            high = middle
        else:
            low = middle + 1
    return low


def interval(
    n_wrong: int, design: Design, *, n_unsure: int = 0, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return the ends between which the share of wrong labels among the accepted lies."""
    alpha = (1 - confidence) / 2
    low = fewest_wrong(n_wrong, design, alpha)
    high = most_wrong(n_wrong + n_unsure, design, alpha)
    return low / design.n_accepted, high / design.n_accepted


def at_most(n_wrong: int, design: Design, *, confidence: float = CONFIDENCE) -> float:
    """Return the bound on one side: "at most so large a share is wrong"."""
    return most_wrong(n_wrong, design, 1 - confidence) / design.n_accepted


def n_to_look(n_accepted: int, wanted: float, n_wrong: int = 0) -> int:
    """Return how many to look at in all to show `wanted`, if so many and no more are wrong.

    In a large pile 59 without a fault show that at most 5 % are wrong; strata make it 60.
    """
    low, high = max(n_wrong, 1), n_accepted
    while low < high:
        middle = (low + high) // 2
        if at_most(n_wrong, plan(n_accepted, middle)) <= wanted:
            high = middle
        else:
            low = middle + 1
    return plan(n_accepted, low).n_looked


def certify(
    sample: Sample,
    verdicts: Sequence[Verdict],
    labels: Sequence[str],
    confidences: Sequence[float],
    *,
    wanted: float,
    n_looks: int = 1,
) -> Certificate:
    """Say what verdicts on a sample mean for all accepted labels, and for each class.

    `labels` and `confidences` are those of all accepted labels, `verdicts` those of the chosen.
    """
    design = sample.design
    found = list(zip(sample.chosen, sample.strata, verdicts, strict=True))
    n_wrong, n_unsure = verdicts.count("wrong"), verdicts.count("unsure")
    strata = _stratum_counts(sample, found, confidences)
    weighted = sum(s.n_accepted * s.n_wrong / s.n_looked for s in strata if s.n_looked)
    low, high = interval(n_wrong, design, n_unsure=n_unsure)
    bound = at_most(n_wrong + n_unsure, design)
    return Certificate(
        n_accepted=design.n_accepted,
        n_looked=design.n_looked,
        n_wrong=n_wrong,
        n_unsure=n_unsure,
        share=weighted / design.n_accepted,
        low=low,
        high=high,
        at_most=bound,
        wanted=wanted,
        n_more=_n_more(design, n_wrong + n_unsure, wanted, bound),
        n_more_at_this_rate=_n_more_at_this_rate(design, n_wrong + n_unsure, wanted, bound),
        n_looks=n_looks,
        confidence=CONFIDENCE,
        strata=strata,
        classes=_class_counts(design, found, labels),
    )


def _chance_of_so_few(n_wrong: int, n_all_wrong: int, design: Design) -> float:
    """Bound the chance that a sample shows `n_wrong` or fewer where so many are wrong in all."""
    n, share = design.n_looked, design.drawn_shares[0]
    mean = min(share * n_all_wrong, n)
    # Markov, of the right ones; below, where Hoeffding's theorem speaks.
    chance = (n - mean) / (n - n_wrong) if n_wrong < n else 1.0
    if n_wrong <= mean - 1:
        chance = min(chance, bdtr(n_wrong, n, mean / n), bdtr(n_wrong, n_all_wrong, share))
    return float(chance)


def _chance_of_so_many(n_wrong: int, n_all_wrong: int, design: Design) -> float:
    """Bound the chance that a sample shows `n_wrong` or more where so many are wrong in all."""
    if n_wrong == 0:
        return 1.0
    n, share = design.n_looked, design.drawn_shares[1]
    mean = min(share * n_all_wrong, n)
    chance = mean / n_wrong
    if n_wrong >= mean + 1:
        tails = bdtrc(n_wrong - 1, n, mean / n), bdtrc(n_wrong - 1, n_all_wrong, share)
        chance = min(chance, *tails)
    return float(chance)


def _n_more(design: Design, n_wrong: int, wanted: float, bound: float) -> int:
    if bound <= wanted:
        return 0
    return max(0, n_to_look(design.n_accepted, wanted, n_wrong) - design.n_looked)


def _n_more_at_this_rate(design: Design, n_wrong: int, wanted: float, bound: float) -> int | None:
    if bound <= wanted:
        return 0
    rate = n_wrong / design.n_looked
    if rate >= wanted:
        return None
    low, high = design.n_looked, design.n_accepted
    while low < high:
        middle = (low + high) // 2
        larger = plan(design.n_accepted, middle)
        if at_most(math.ceil(rate * larger.n_looked), larger) <= wanted:
            high = middle
        else:
            low = middle + 1
    return plan(design.n_accepted, low).n_looked - design.n_looked


def _stratum_counts(
    sample: Sample, found: Sequence[tuple[int, int, Verdict]], confidences: Sequence[float]
) -> tuple[StratumCount, ...]:
    ordered = sorted(confidences)
    counts, end = [], 0
    for stratum, size in enumerate(sample.sizes):
        said = [verdict for _, where, verdict in found if where == stratum]
        counts.append(
            StratumCount(
                ordered[end],
                ordered[end + size - 1],
                size,
                len(said),
                said.count("wrong"),
                said.count("unsure"),
            )
        )
        end += size
    return tuple(counts)


def _class_counts(
    design: Design, found: Sequence[tuple[int, int, Verdict]], labels: Sequence[str]
) -> tuple[ClassCount, ...]:
    """Count by class. That a label is wrong *and* of this class is an error like any other.

    So the interval of the number of these holds as it does for all, and the size of the class,
    which is known, makes a share of it.
    """
    alpha = (1 - CONFIDENCE) / 2
    counts = []
    for name, n_accepted in sorted(Counter(labels).items()):
        said = [verdict for chosen, _, verdict in found if labels[chosen] == name]
        n_wrong, n_unsure = said.count("wrong"), said.count("unsure")
        low = high = None
        if len(said) >= LEAST_OF_CLASS or len(said) == n_accepted:
            n_right = len(said) - n_wrong - n_unsure
            most = min(most_wrong(n_wrong + n_unsure, design, alpha), n_accepted - n_right)
            low = min(fewest_wrong(n_wrong, design, alpha), most) / n_accepted
            high = most / n_accepted
        counts.append(ClassCount(name, n_accepted, len(said), n_wrong, n_unsure, low, high))
    return tuple(counts)
