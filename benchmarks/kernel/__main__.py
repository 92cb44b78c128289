"""Compare with the kernel: the same frames through Linux's queues and filters, and through netsim's links.

Frames cross a pair of virtual devices between two network namespaces, through a queue of tc or a rule of nftables, and
the kernel's timestamps give the times at which each frame is offered and leaves. Then the same frames, offered at the
same times, cross a netsim.Network. The rows "netsim" show differences between netsim and the kernel; the rows "kernel"
show differences between two runs of the kernel with the same plan, which limit the resolution. Both are medians.
"""

import argparse
import json
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from benchmarks.kernel import mapping
from benchmarks.kernel.namespaces import Ends, Unavailable, become_root, open_ends
from benchmarks.kernel.shared import uplink
from benchmarks.kernel.trial import Plan, Row, bursts, evenly, losses, poisson, times
from benchmarks.kernel.wire import Disagreement
from benchmarks.report import columns, parser
from netsim.errors import BadInput
from netsim.util import check

RATE = 2_000_000
SETTINGS: dict[str, mapping.Setting] = {
    "tbf": mapping.token_bucket(RATE, burst=4000, limit=8000),
    "htb": mapping.shaper(RATE, burst=3000, waiting=10, size=700),
    "htb-no-burst": mapping.rate(RATE, waiting=10),
    "limit": mapping.police(50_000, burst=2000, pace=RATE),
}
TRAFFIC: dict[str, Callable[..., Plan]] = {
    "bursts": partial(bursts, load=1.4),
    "poisson 0.8": partial(poisson, load=0.8),
    "poisson 1.3": partial(poisson, load=1.3),
}
DROPS = {"random 1%": mapping.random_drop(10), "random 10%": mapping.random_drop(100)}
PARTS = (*SETTINGS, "uplink", "random")
# For drops: the factor of the number of frames, and their distance (s). A loss rate needs many frames, not exact times.
_MANY, _EVERY, _SMALL = 20, 4e-5, 100

Rows = dict[str, Row]


def main() -> None:
    """Run the benchmark."""
    command = parser(__doc__, frames=400, repeats=3, seed=1)
    command.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    chosen = command.parse_args()
    try:
        check.integer("frames", chosen.frames, low=20, high=5000)
        check.integer("repeats", chosen.repeats, low=2, high=20)
        check.integer("seed", chosen.seed, low=0)
    except BadInput as error:
        command.error(str(error))
    try:
        become_root()
        show(*measured(chosen), chosen)
    except Unavailable as why:
        show([], {"all": str(why)}, chosen)
    except (Disagreement, OSError) as error:
        sys.exit(f"kernel: {error}")
    except KeyboardInterrupt:
        print("kernel: interrupted; the namespaces are gone", file=sys.stderr)
        sys.exit(130)


def measured(chosen: argparse.Namespace) -> tuple[list[Rows], dict[str, str]]:
    """Return the rows of times, of a shared uplink and of losses, and the reasons why parts were omitted."""
    timed: Rows = {}
    lost: Rows = {}
    flows: Rows = {}
    left_out: dict[str, str] = {}
    with open_ends() as ends:
        for part in chosen.parts:
            try:
                if part == "random":
                    lost |= drops(ends, chosen)
                elif part == "uplink":
                    flows |= uplink(ends, chosen.repeats)
                else:
                    timed |= queue(ends, part, chosen)
            except Unavailable as why:
                left_out[part] = str(why)
    return [timed, flows, lost], left_out


def queue(ends: Ends, part: str, chosen: argparse.Namespace) -> Rows:
    """Return the rows of a part with queueing or refused frames."""
    setting, rows = SETTINGS[part], {}
    for name, traffic in TRAFFIC.items():
        plan = traffic(chosen.frames, setting.pace, size=setting.size, rng=np.random.default_rng(chosen.seed))
        for whose, row in times(ends, setting, plan, chosen.repeats, chosen.seed).items():
            rows[f"{part}, {name}: {whose}"] = row
    return rows


def drops(ends: Ends, chosen: argparse.Namespace) -> Rows:
    """Return the rows of the random drops."""
    plan = evenly(_MANY * chosen.frames, _EVERY, _SMALL)
    found = {name: losses(ends, setting, plan, chosen.repeats, chosen.seed) for name, setting in DROPS.items()}
    return {f"{name}: {whose}": row for name, rows in found.items() for whose, row in rows.items()}


def show(found: Sequence[Rows], left_out: Mapping[str, str], chosen: argparse.Namespace) -> None:
    """Print the results, or the reason for their absence in one line."""
    where = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if chosen.json:
        # JSON has no NaN.
        finite = {
            name: {key: value if np.isfinite(value) else None for key, value in row.items()}
            for rows in found
            for name, row in rows.items()
        }
        print(json.dumps(({"kernel": where} if finite else {}) | finite | {"skipped": left_out}))
    elif not any(found):
        print(f"kernel: skipped: {'; '.join(dict.fromkeys(left_out.values()))}")
    else:
        print(f"{where}: netsim against the kernel, and the kernel against itself; medians of {chosen.repeats} runs")
        for rows in filter(None, found):
            print(f"\n{columns(rows)}")
        for part, why in left_out.items():
            print(f"{part}: skipped: {why}")


if __name__ == "__main__":
    main()
