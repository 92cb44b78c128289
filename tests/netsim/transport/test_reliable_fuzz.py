"""Random networks with reliable links keep the laws, whatever fails and whatever the medium."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzzers.reliable import check_reliable


@pytest.mark.parametrize("on_radio", [False, True])
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**50), with_faults=st.booleans())
def test_laws_hold_with_reliable_links(on_radio: bool, seed: int, with_faults: bool) -> None:
    check_reliable(seed, with_faults, on_radio)
