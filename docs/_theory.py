"""Run the study theory (about a minute) and write its results for docs/theory.md: ``python docs/_theory.py``.

The results are the table theory.csv, from which `_lists.py` makes the list "theorems" of the page, and a figure. The
study's test checks the table at one seed.
"""

import io
import runpy
from pathlib import Path

from PIL import Image

from netsim.studies import catalogue

DOCS = Path(__file__).parent

if __name__ == "__main__":
    study = catalogue.find_study("theory").execute()
    study.tables["theorems"].to_csv(DOCS / "theory.csv", index=False, float_format="%.3g")
    table = catalogue.find_study("theory").execute(repeats=1).tables["theorems"]
    table.to_csv(DOCS.parent / "tests" / "scenarios" / "theory_at_one_seed.csv", index=False, float_format="%.3g")
    drawn = io.BytesIO()
    study.figures["bounds"].savefig(drawn, dpi=80)
    Image.open(drawn).convert("RGB").quantize(64).save(DOCS / "theory_bounds.png", optimize=True)
    runpy.run_path(str(DOCS / "_lists.py"))["main"]()
