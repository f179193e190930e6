"""Rates of the cases of `sapwood lab site`, and their ratios."""

from __future__ import annotations

import statistics

from sapwood.lab.studies.site.cases import Case
from sapwood.lab.studies.study import Study, ratio_text
from sapwood.show.units import counted


def rates_of(study: Study, case: Case) -> list[float]:
    """Return the events per second of each round."""
    return [float(rate) for rate in study.figures(case.what, case.engine, "events_per_second")]


def rate_of(study: Study, case: Case) -> float:
    """Return the events per second, as the median of the rounds; 0 without a value."""
    return statistics.median(rates_of(study, case) or [0.0])


def ratios_of(study: Study, case: Case, base: Case) -> list[float]:
    """Return the ratio of rates of each round: a disturbance of a round affects both."""
    # In a resumed study, one of them may have more values.
    both = zip(rates_of(study, case), rates_of(study, base), strict=False)
    return [one / other for one, other in both if other]


def times_text(study: Study, case: Case, base: Case) -> str:
    """Return the ratio of two rates as text, with the range of single rounds if they differ.

    The ratio is that of the medians, which tables show. If one of the cases has more rounds, the text gives the number
    of rounds in the range.
    """
    ratio, rounds = rate_of(study, case) / rate_of(study, base), ratios_of(study, case, base)
    # Below 1.1, one decimal is a step of 10 %.
    text = ratio_text(ratio, rounds, 2 if ratio < 1.1 else 1)
    if len(rates_of(study, case)) == len(rates_of(study, base)):
        return text
    return text.replace("by the round)", f"in the {counted(len(rounds), 'round')} that both have)")
