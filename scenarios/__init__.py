"""Studies that run from the command line: data, a network, agents, and what to measure.

A larger study is a package whose entry point is ``study.py``. `tasks` holds measures and settings shared by several
studies, `data` loads the samples, and `published` holds the papers' printed results.
"""

from pathlib import Path

from netsim.studies.catalogue import Entry, Registry

_ELSEWHERE = {"bench_case": "bench.case", "deep_network": "deep.network"}


def _group(group: str, **titles: str) -> dict[str, Entry]:
    """Return the catalogue entries of a group of studies, keyed by study name."""
    found = {}
    for name, title in titles.items():
        room = f"{name}.study" if Path(__file__).with_name(name).is_dir() else name
        found[name] = Entry(f"{__name__}.{_ELSEWHERE.get(name, room)}:{name}", title, group)
    return found


SHELF = Registry(
    _group(
        "sensor networks",
        convergecast="Motes sample and report to a sink over a tree: delivery, delay, and cost.",
        intel_lab="DKLA and COKE on 53 motes of the Intel lab: ideal links, its real ones, remedies; error, bits and "
        "energy.",
        lifetime="Rounds until the first and the median battery is empty, by algorithm, with and without a duty cycle.",
        mtu="Bits an element against frames: why three bits fit one IEEE 802.15.4 frame and 64 do not.",
        ulb_library="Nineteen motes learn a library's temperature over the packets that were really heard, minute by "
        "minute.",
    )
    | _group(
        "packet loss",
        bench="A fixed suite for any method: bits and time to a target error, and survival, on lossy and real links.",
        bench_case="One case of the benchmark: some methods on one of its problems and networks, at given settings.",
        packet_loss="The effects of lost frames on families of algorithms, and of remedies, with their costs.",
        pushsum="Averaging over lossy links: Metropolis weights, push-sum, and push-sum with running sums.",
    )
    | _group(
        "neural networks",
        neural="A neural network learned by D-PSGD or other methods from samples that may differ between agents.",
    )
    | _group(
        "teaching",
        aloha="The shared channel: ALOHA, slotted ALOHA and carrier sense against the closed forms.",
        averaging="Gossip averaging on a random geometric graph of sensors.",
        election="Leader election on a ring, with each message sent once, and with repetition until acknowledgement.",
        flooding="Flooding, its spanning tree, and the tree with acknowledgements: the agents reached, and the cost.",
        generals="Two generals who attack together or not at all: how often one attacks alone, by the number of "
        "messages.",
    )
    | _group(
        "papers",
        coke="Batch kernel learning: CTA, DKLA and COKE on one network (Xu, Wang, Chen and Tian 2021).",
        deep="Deep kernel learning: RF-KL, DKL, DKL-MLP against Deep-semi and a DNN (P. Xu's dissertation, ch. 5).",
        deep_network="DKL-MLP and RF-KL learned by DKLA, COKE, QC-ODKLA over a network (P. Xu's dissertation, section "
        "5.6).",
        dynamic="Dynamic kernel learning: DDKL, CoDDKL, QDDKL, QC-DDKL (P. Xu's dissertation, ch. 4).",
        frontier="Error against bits: every method with every coder and every censor, and the Pareto front.",
        omkl="Online multi-kernel learning by gossip, on a path, a ring, all links (Ortega and Jafarkhani 2023).",
        online="Online kernel learning: RFF-DOKL, DOKL, ODKLA, QC-ODKLA (P. Xu's dissertation, ch. 3).",
        papers="What the papers report, ours beside theirs: every table and figure that the data at hand allow.",
        polk="Online kernel classification with small dictionaries (Koppel, Paternain, Richard and Ribeiro 2018).",
        privacy="Information revealed by algorithms: model bits, raw-data bits and test error of each, on one task.",
        projections="Kernel regression by successive projections among agents that share examples (Predd, Kulkarni and "
        "Poor).",
        theory="Every theorem of the papers beside runs on small problems: holds, tight, vacuous, or as printed it "
        "fails.",
    ),
    columns=("train_mse", "test_mse", "consensus_error", "dual_residual"),
)
"""The registry of studies by name, each with its group. `netsim list` shows it without importing the studies."""
