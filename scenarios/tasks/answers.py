"""Shared parts of studies' answers: the seeds for which they hold, and the algorithm with the least final error."""

from typing import Any

import numpy as np
import pandas as pd

from netsim.studies import Study
from netsim.studies.columns import label
from netsim.studies.seeds import over_text


def of_one_run(study: Study) -> str:
    """Return a text that there was only one run, with these seeds, and so no interval over seeds."""
    seeds = (f"{over_text(name)} {value}" for name, value in study.seeds.items())
    return f"One run{' each' * (len(study.runs) > 1)} ({', '.join(seeds)}), so no interval over seeds."


def answer(study: Study, text: str, condition: str, /, **fields: Any) -> None:
    """Answer as `Study.answer` does, unless a number is not finite, because a run diverged or lacks it."""
    numbers = [each for value in fields.values() for each in np.atleast_1d(value) if not isinstance(each, str)]
    if np.isfinite(numbers).all():
        study.answer(text, condition, **fields)


def answer_least(study: Study, error: str) -> None:
    """Answer which algorithm ended with the least error, and its cost; give no answer if all errors are NaN."""
    last = study.rounds.groupby("algorithm", sort=False).tail(1).set_index("algorithm")
    last = last[np.isfinite(last[error])].sort_values(error, kind="stable")
    study.ask(f"Which algorithm ends with the least {label(error)}, and what does it send for it?")
    if last.empty:
        return
    text, more = "{name} ends with a {label} of {least:.3g} after {bits:,.0f} bits on the wire", {}
    if len(last) > 1:
        text += ", the least of {count}; {next} comes next with {more:.3g} after {others:,.0f} bits"
        more = {"count": len(last), "next": str(last.index[1]), "more": float(last[error].iloc[1])}
        more |= {"others": float(last["wire_bits"].iloc[1])}
    best = {"name": str(last.index[0]), "least": float(last[error].iloc[0]), "bits": float(last["wire_bits"].iloc[0])}
    rounds = f"After {last['round'].iloc[0]:,.0f} rounds. "
    answer(study, f"{text}.", rounds + of_one_run(study), **best, **more, label=label(error))


def answer_cheaper(study: Study, table: pd.DataFrame, plain: str, cheap: str, error: str) -> None:
    """Answer with the share of a method's bits that a cheaper one sends, and its error; else `answer_least`.

    The table has a row for each algorithm, with columns as ``MSE / ODKLA`` and ``bits / ODKLA``.
    """
    found = table[table["algorithm"] == cheap]
    columns = [f"MSE / {plain}", f"bits / {plain}"]
    if found.empty or not {*columns} <= {*table}:
        answer_least(study, error)
        return
    times, bits = found[columns].to_numpy(float)[0]
    study.ask("What do coding and censoring save, and what do they cost in error?")
    answer(
        study,
        "{cheap} sends {bits:.3g} % of {plain}'s bits, and ends with {times:.4g} times its {label}.",
        of_one_run(study),
        **{"cheap": cheap, "plain": plain, "bits": 100 * bits, "times": times, "label": label(error)},
    )
