"""P. Xu's dissertation, chapter 4, dynamic kernel learning: figures 4.1 and 4.2, and the claims of the summary."""

from functools import partial

from netsim.scenarios.papers.claim import PREPARED, Cell, Claim, Paper, Try
from netsim.scenarios.papers.reading import ratio, recent
from netsim.scenarios.papers.work import Work

_HARDWARE = {"data": "tomshardware", "rounds": 1945}
_THREE = {"algorithms": "RFF-DOKL,DOKL,DDKL", "compare_bits": ""}
_QUANTIZED = {"algorithms": "QC-DDKL", "compare_bits": "4,5,8"}
_ALL = {"algorithms": "DDKL,QDDKL,QC-DDKL"}
_STEPS = "step sizes of the study (the dissertation tunes them and does not print them)"
_work = partial(Work.of, "dynamic")
WORKS = (
    _work("tomshardware", _STEPS, **_HARDWARE, compare_bits="2,3,4,5,6,7,8"),
    _work("tomshardware-tuned", **_HARDWARE, **_THREE, tune=True),
    _work("tomshardware-time", **_HARDWARE, order="time", **_THREE),
    _work("tomshardware-text", **_HARDWARE, conventions="text", compare_bits="4,5,8"),
    _work("tomshardware-range", **_HARDWARE, **_QUANTIZED, range=0.025),
    _work("tomshardware-range-squared", **_HARDWARE, **_QUANTIZED | _ALL, range=0.06, squared=True),
    _work("tomshardware-squared", **_HARDWARE, **_ALL, compare_bits="", squared=True),
    _work("tomshardware-unsaturated", **_HARDWARE, **_QUANTIZED, range=0.025, saturate=False),
    _work("twitter", f"{_STEPS}; 13,813 of its 98,700 samples", data="twitter", compare_bits="5,6,7,8"),
    _work("drift", "a synthetic stream; the dissertation has none", data="drift", **_THREE),
    _work("switch", "a synthetic stream; the dissertation has none", data="switch", **_THREE),
    *(_work(f"{data}-tuned", data=data, **_THREE, tune=True) for data in ("drift", "switch", "twitter")),
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


_hardware = partial(Claim, work="dynamic-tomshardware")


def _better(other: str) -> Claim:
    return _hardware(
        where="figure 4.2 (a)",
        what=f"Tom's hardware: DDKL has a lower MSE than {other}",
        read=ratio("running_mse", "DDKL", other),
        cells=(Cell("ratio", high=1.0),),
        criterion=f"Running MSE over {other}'s, at the end, below 1.",
        tries=_TRIES,
        open=_OPEN,
    )


def _tracks(data: str, other: str) -> Claim:
    tracking = "tracking_error"
    return Claim(
        where="section 4.5",
        what=f"DDKL captures dynamics: on a truth that {_DOES[data]} it tracks no worse than {other}, each tuned",
        work=f"dynamic-{data}-tuned",
        read=lambda runs: recent(runs, "DDKL", tracking) / recent(runs, other, tracking),
        cells=(Cell("ratio", high=1.0),),
        criterion=f"Error against the true function over {other}'s, mean of the last fifth of the rounds, at most 1.",
        tries=(Try("the same step sizes for all methods", f"dynamic-{data}"),),
        open="streams whose truth moves: both data sets are shuffled, so theirs does not",
    )


PAPER = Paper(
    name="dynamic",
    title="P. Xu, dissertation (George Mason University), chapter 4: decentralized dynamic kernel learning",
    works=WORKS,
    claims=(
        Claim(
            where="figure 4.1 (a)",
            what="Twitter: DDKL has an MSE comparable to RFF-DOKL's",
            work="dynamic-twitter",
            read=ratio("running_mse", "DDKL", "RFF-DOKL"),
            cells=(Cell("ratio", high=1.1),),
            criterion="Running MSE over RFF-DOKL's, at the end, at most 1.1.",
            tries=(Try("bandwidth and step sizes tuned", "dynamic-twitter-tuned"),),
        ),
        _better("RFF-DOKL"),
        _better("DOKL"),
        _hardware(
            where="figure 4.2 (b)",
            what="Tom's hardware: QC-DDKL needs the fewest bits in all, at a comparable MSE",
            read=ratio("payload_bits", "QC-DDKL", "QDDKL"),
            cells=(Cell("ratio", high=1.0),),
            criterion="Payload bits over QDDKL's, the next best, below 1.",
            tries=_SQUARED,
        ),
        _hardware(
            where="figure 4.2 (b)",
            what="Tom's hardware: quantized and censored, the MSE is DDKL's",
            read=ratio("running_mse", "QC-DDKL", "DDKL"),
            cells=(Cell("ratio", high=1.05),),
            criterion="Running MSE over DDKL's, at the end, at most 1.05.",
            tries=_SQUARED,
        ),
        _hardware(
            where="figure 4.2 (c)",
            what="Tom's hardware: 5 bits an element do as well as 8",
            read=ratio("running_mse", "QC-DDKL 5-bit", "QC-DDKL 8-bit"),
            cells=(Cell("ratio", low=0.95, high=1.05),),
            criterion="Running MSE over that of 8 bits, at the end, within 5 %.",
            tries=_FIXED,
        ),
        _hardware(
            where="figure 4.2 (c), (d)",
            what="Tom's hardware: 5 bits an element are the fewest that do as well as 8",
            read=ratio("running_mse", "QC-DDKL 4-bit", "QC-DDKL 8-bit"),
            cells=(Cell("ratio", low=1.05),),
            criterion="Running MSE of 4 bits over that of 8, at the end, above 1.05: else 4 would do.",
            tries=_FIXED,
            open="how the quantizer's range is chosen (ours: for each message, +-max, for which few bits suffice)",
        ),
        *(_tracks(data, other) for data in ("drift", "switch") for other in ("RFF-DOKL", "DOKL")),
    ),
    notes=(PREPARED,),
    left_out=("The curves of figures 4.1 and 4.2: their numbers are not in the text.",),
)
