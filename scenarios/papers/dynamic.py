"""P. Xu's dissertation, chapter 4: dynamic kernel learning. Figures 4.1 and 4.2, and what the summary claims."""

from netsim.scenarios.papers.claim import PREPARED, Cell, Claim, Paper, Try
from netsim.scenarios.papers.reading import at_end, ratio, recent, single
from netsim.scenarios.papers.work import Work

_HARDWARE = {"data": "tomshardware", "rounds": 1945}
_THREE = {"algorithms": "RFF-DOKL,DOKL,DDKL", "compare_bits": ""}
_STEPS = "step sizes of the study (the dissertation tunes them and does not print them)"
WORKS = (
    Work("dynamic-tomshardware", "dynamic", {**_HARDWARE, "compare_bits": "2,3,4,5,6,7,8"}, _STEPS),
    Work("dynamic-tomshardware-tuned", "dynamic", {**_HARDWARE, **_THREE, "tune": True}),
    Work("dynamic-tomshardware-time", "dynamic", {**_HARDWARE, "order": "time", **_THREE}),
    Work("dynamic-tomshardware-text", "dynamic", {**_HARDWARE, "conventions": "text", "compare_bits": "4,5,8"}),
    Work(
        "dynamic-tomshardware-range",
        "dynamic",
        {**_HARDWARE, "algorithms": "QC-DDKL", "compare_bits": "4,5,8", "range": 0.025},
    ),
    Work(
        "dynamic-tomshardware-range-squared",
        "dynamic",
        {
            **_HARDWARE,
            "algorithms": "DDKL,QDDKL,QC-DDKL",
            "compare_bits": "4,5,8",
            "range": 0.06,
            "squared": True,
        },
    ),
    Work(
        "dynamic-tomshardware-squared",
        "dynamic",
        {**_HARDWARE, "algorithms": "DDKL,QDDKL,QC-DDKL", "compare_bits": "", "squared": True},
    ),
    Work(
        "dynamic-tomshardware-unsaturated",
        "dynamic",
        {**_HARDWARE, "algorithms": "QC-DDKL", "compare_bits": "4,5,8", "range": 0.025, "saturate": False},
    ),
    Work(
        "dynamic-twitter",
        "dynamic",
        {"data": "twitter", "compare_bits": "5,6,7,8"},
        f"{_STEPS}; 13,813 of its 98,700 samples",
    ),
    Work("dynamic-drift", "dynamic", {"data": "drift", **_THREE}, "a synthetic stream; the dissertation has none"),
    Work("dynamic-switch", "dynamic", {"data": "switch", **_THREE}, "a synthetic stream; the dissertation has none"),
    *(Work(f"dynamic-{data}-tuned", "dynamic", {"data": data, **_THREE, "tune": True}) for data in ("drift", "switch")),
    Work("dynamic-twitter-tuned", "dynamic", {"data": "twitter", **_THREE, "tune": True}),
)

_DOES = {"drift": "drifts", "switch": "switches"}
_TRIES = (
    Try("bandwidth and step sizes tuned", "dynamic-tomshardware-tuned"),
    Try("rows in the file's order", "dynamic-tomshardware-time"),
    Try("all rows, each column scaled by itself", "dynamic-tomshardware-text"),
)
_FIXED = (
    Try("fixed range of the quantizer, [-0.025, 0.025)", "dynamic-tomshardware-range"),
    Try("[-0.06, 0.06), and the censor on the square", "dynamic-tomshardware-range-squared"),
    Try("[-0.025, 0.025), not saturated (3.21 as printed)", "dynamic-tomshardware-unsaturated"),
)
_SQUARED = (
    Try("the censor on the square", "dynamic-tomshardware-squared"),
    Try("the same, and a fixed range [-0.06, 0.06)", "dynamic-tomshardware-range-squared"),
)
_OPEN = "step sizes, the graph, which 9,725 rows were used and how the quantizer's range is chosen"


def _better(other: str) -> Claim:
    return Claim(
        where="figure 4.2 (a)",
        what=f"Tom's hardware: DDKL has a lower MSE than {other}",
        work="dynamic-tomshardware",
        read=single("ratio", ratio("running_mse", "DDKL", other)),
        cells=(Cell("ratio", high=1.0),),
        criterion=f"Running MSE over {other}'s, at the end, below 1.",
        tries=_TRIES,
        open=_OPEN,
    )


def _twitter() -> Claim:
    return Claim(
        where="figure 4.1 (a)",
        what="Twitter: DDKL has an MSE comparable to RFF-DOKL's",
        work="dynamic-twitter",
        read=single("ratio", ratio("running_mse", "DDKL", "RFF-DOKL")),
        cells=(Cell("ratio", high=1.1),),
        criterion="Running MSE over RFF-DOKL's, at the end, at most 1.1.",
        tries=(Try("bandwidth and step sizes tuned", "dynamic-twitter-tuned"),),
    )


def _bits(bits: int, other: int) -> Claim:
    return Claim(
        where="figure 4.2 (c)",
        what=f"Tom's hardware: {bits} bits an element do as well as {other}",
        work="dynamic-tomshardware",
        read=single("ratio", ratio("running_mse", f"QC-DDKL {bits}-bit", f"QC-DDKL {other}-bit")),
        cells=(Cell("ratio", low=0.95, high=1.05),),
        criterion=f"Running MSE over that of {other} bits, at the end, within 5 %.",
        tries=_FIXED,
    )


def _tracks(data: str, other: str) -> Claim:
    tracking = "tracking_error"
    return Claim(
        where="section 4.5",
        what=f"DDKL captures dynamics: on a truth that {_DOES[data]} it tracks no worse than {other}, each tuned",
        work=f"dynamic-{data}-tuned",
        read=single("ratio", lambda runs: recent(runs, "DDKL", tracking) / recent(runs, other, tracking)),
        cells=(Cell("ratio", high=1.0),),
        criterion=f"Error against the true function over {other}'s, mean of the last fifth of the rounds, at most 1.",
        tries=(Try("the same step sizes for all methods", f"dynamic-{data}"),),
        open="streams whose truth moves: both of the data sets are shuffled, so theirs does not",
    )


PAPER = Paper(
    name="dynamic",
    title="P. Xu, dissertation (George Mason University), chapter 4: decentralized dynamic kernel learning",
    works=WORKS,
    claims=(
        _twitter(),
        _better("RFF-DOKL"),
        _better("DOKL"),
        Claim(
            where="figure 4.2 (b)",
            what="Tom's hardware: QC-DDKL needs the fewest bits in all, at a comparable MSE",
            work="dynamic-tomshardware",
            read=single("ratio", ratio("payload_bits", "QC-DDKL", "QDDKL")),
            cells=(Cell("ratio", high=1.0),),
            criterion="Payload bits over QDDKL's, the next best, below 1.",
            tries=_SQUARED,
        ),
        Claim(
            where="figure 4.2 (b)",
            what="Tom's hardware: quantized and censored, the MSE is DDKL's",
            work="dynamic-tomshardware",
            read=single(
                "ratio", lambda runs: at_end(runs, "QC-DDKL", "running_mse") / at_end(runs, "DDKL", "running_mse")
            ),
            cells=(Cell("ratio", high=1.05),),
            criterion="Running MSE over DDKL's, at the end, at most 1.05.",
            tries=_SQUARED,
        ),
        _bits(5, 8),
        Claim(
            where="figure 4.2 (c), (d)",
            what="Tom's hardware: 5 bits an element are the fewest that do as well as 8",
            work="dynamic-tomshardware",
            read=single("ratio", ratio("running_mse", "QC-DDKL 4-bit", "QC-DDKL 8-bit")),
            cells=(Cell("ratio", low=1.05),),
            criterion="Running MSE of 4 bits over that of 8, at the end, above 1.05: else 4 would do.",
            tries=_FIXED,
            open="how the quantizer's range is chosen (ours: for each message, +-max, which few bits suffice for)",
        ),
        *(_tracks(data, other) for data in ("drift", "switch") for other in ("RFF-DOKL", "DOKL")),
    ),
    notes=(PREPARED,),
    left_out=("The curves of figures 4.1 and 4.2: their numbers are not in the text.",),
)
