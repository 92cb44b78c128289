"""Memory of large vectors is reused instead of being returned to the system after each round."""

import os
import platform
import subprocess
import sys

import pytest

from netsim.util.compiled import compiled

_CODE = """
import resource, numpy as np, netsim
from netsim import Network, topology
class Sum(netsim.Agent):
    async def run(self):
        model, total = np.ones(1 << 20), None
        async for _ in self.rounds(8):
            await self.broadcast("model", model)
            total = (await self.collect()).sum()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
Network(topology.ring(6)).run({i: Sum() for i in range(6)})
print((resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) * resource.getpagesize())
"""


@pytest.mark.slow
@pytest.mark.skipif(
    compiled("core._core") is None or platform.libc_ver()[0] != "glibc", reason="needs the compiled core and glibc"
)
def test_large_vectors_use_memory_again() -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    done = subprocess.run([sys.executable, "-c", _CODE], check=True, capture_output=True, text=True, env=plain)
    # Frames and sums of one round need 96 MB. Without reuse, all rounds together would need 768 MB.
    assert int(done.stdout) < 1.5 * 96 * 2**20
