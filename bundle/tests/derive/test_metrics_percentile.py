import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3bundle.derive.metrics.percentile import percentile, weighted_percentile

WEIGHTED = st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 9)), min_size=1, max_size=12)


@given(WEIGHTED, st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99, 1.0]))
def test_weighted_percentile_is_that_of_the_expanded_list(
    weighted: list[tuple[int, int]], share: float
) -> None:
    expanded = [value for value, weight in weighted for _ in range(weight)]
    found = weighted_percentile(weighted, share)
    if not expanded:
        assert found is None
    else:
        assert found == pytest.approx(float(np.quantile(expanded, share)), abs=1e-9)


def test_percentile_of_nothing_is_none() -> None:
    assert percentile([], 0.5) is None
    assert percentile([3.0], 0.9) == 3.0
    assert percentile([1.0, 2.0, 4.0], 0.5) == 2.0
