"""numpy, PyTorch and JAX give the same values, gradients and rounds of D-PSGD, also by automatic differentiation.

JAX and PyTorch start threads, so they run in a separate process.
"""

import importlib.util
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import pytest

from netsim import BadInput, Network, topology
from netsim.agents import DPSGD, ModelCost
from netsim.agents.models.backends import BACKENDS, backend
from netsim.util.typing import Array
from tests.agents.test_layered import NETWORKS, drawn
from tests.command import python

Call = Callable[..., Any]

OTHERS = [
    pytest.param(
        name,
        # Each takes seconds to import.
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(
                any(importlib.util.find_spec(each) is None for each in needed), reason=f"{name} is not installed"
            ),
        ],
    )
    for name, needed in {"jax": ("jax",), "torch": ("torch", "array_api_compat")}.items()
]
# Convolutions and second layers take seconds to compile.
SOME = [pytest.param(name, marks=[pytest.mark.slow] * name.startswith(("cnn", "two"))) for name in NETWORKS]


@pytest.fixture(scope="module")
def apart() -> Iterator[Call]:
    """A function that calls functions of this module in one separate process."""
    with (
        pytest.MonkeyPatch.context() as patch,
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool,
    ):
        # Compilation takes most of the time, and its optimizations save none here; test_neural runs with them.
        patch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
        yield lambda function, *arguments: pool.submit(function, *arguments).result()


def cost(which: str, library: str, dtype: str = "float64", **more: Any) -> ModelCost:
    network = NETWORKS[which]
    _, inputs, labels = drawn(network, 20)
    wanted = labels if network.squared else labels.argmax(axis=1)
    return ModelCost(network, inputs, wanted, library=library, dtype=dtype, regularizer=0.1, **more)


def values(name: str, library: str, dtype: str = "float64") -> tuple[float, Array, Array]:
    """Return the cost R, its gradient, and its gradient over some samples."""
    made, theta = cost(name, library, dtype), drawn(NETWORKS[name])[0]
    return made.value(theta), made.gradient(theta), made.gradient(theta, np.array([3, 1, 7, 0, 9, 2]))


def differentiated(name: str, library: str) -> Array:
    """Return the gradient of the loss by the library's own automatic differentiation."""
    network = NETWORKS[name]
    there = backend(library)
    weights, inputs, labels = (there.array(each) for each in drawn(network))
    if library == "jax":
        import jax

        with jax.enable_x64(True):
            return np.asarray(jax.jit(jax.grad(lambda each: network.loss(there.xp, each, inputs, labels)))(weights))
    weights.requires_grad_(True)
    network.loss(there.xp, weights, inputs, labels).backward()
    return np.asarray(weights.grad)


def rounds(name: str, library: str) -> Array:
    """Return the models of D-PSGD with minibatches after ten rounds on a ring."""
    ring = topology.ring(4)
    weights = topology.metropolis_weights(ring)
    agents = {
        i: DPSGD(cost(name, library, batch=6, name=i), 10, eta=0.2, weights=dict(enumerate(weights[i]))) for i in ring
    }
    Network(ring, seed=1).run(agents)
    return np.stack([agent.theta for agent in agents.values()])


@pytest.mark.parametrize("library", OTHERS)
@pytest.mark.parametrize("name", SOME)
def test_a_library_computes_what_numpy_does(apart: Call, name: str, library: str) -> None:
    for ours, theirs in zip(values(name, "numpy"), apart(values, name, library), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("library", OTHERS)
@pytest.mark.parametrize("name", ["softmax", "two semi-random layers, squared"])
def test_rounds_by_a_library_are_those_by_numpy(apart: Call, name: str, library: str) -> None:
    """Two networks suffice, one of classes and one of squares: the test above compares gradients for all networks."""
    np.testing.assert_allclose(apart(rounds, name, library), rounds(name, "numpy"), rtol=0, atol=1e-10)


@pytest.mark.parametrize("library", OTHERS)
@pytest.mark.parametrize("name", SOME)
def test_the_gradient_is_that_of_automatic_differentiation(apart: Call, name: str, library: str) -> None:
    ours = NETWORKS[name].gradient(np, *drawn(NETWORKS[name]))
    np.testing.assert_allclose(apart(differentiated, name, library), ours, rtol=0, atol=1e-10)


@pytest.mark.parametrize("library", ["numpy", *OTHERS])
def test_single_precision_is_near_double(apart: Call, library: str) -> None:
    exact = values("one hidden layer", "numpy")
    call: Call = values if library == "numpy" else partial(apart, values)
    single = call("one hidden layer", library, "float32")
    for ours, theirs in zip(exact, single, strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-5)
        assert not np.array_equal(theirs, ours)
    assert single[1].dtype == np.float64


@pytest.mark.slow
def test_no_library_is_imported_before_it_is_asked_for() -> None:
    code = "import sys, netsim, netsim.agents, netsim.scenarios.neural as study; from netsim.studies import cli;"
    shown = python(code + "print({'jax', 'torch', 'array_api_compat'} & set(sys.modules))")
    assert shown.strip() == "set()"


def test_an_unknown_library_and_one_that_is_missing_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BACKENDS == ("numpy", "torch", "jax")
    with pytest.raises(BadInput, match=r"^backend = 'cupy': must be one of "):
        backend("cupy")
    backend.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"^backend = 'torch': must go with torch, which is not installed"):
        backend("torch")
