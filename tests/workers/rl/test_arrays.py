from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.rl.arrays import TrajectoryArrays, decode, encode

float32 = st.floats(width=32, allow_nan=True)


@st.composite
def trajectories(draw: st.DrawFn) -> TrajectoryArrays:
    length = draw(st.integers(0, 60))

    def column(values: st.SearchStrategy[object]) -> list[object]:
        return draw(st.lists(values, min_size=length, max_size=length))

    mask = column(st.integers(0, 1))
    versions = [draw(st.integers(0, 1 << 30)) if m else -1 for m in mask]
    tokens, logprobs = column(st.integers(0, 200_000)), column(float32)
    return TrajectoryArrays(tokens, mask, logprobs, versions)  # type: ignore[arg-type]


@given(trajectories())
def test_a_blob_gives_back_the_same_bits(arrays: TrajectoryArrays) -> None:
    again = decode(encode(arrays))
    for name in ("tokens", "mask", "logprobs", "versions"):
        column, other = getattr(arrays, name), getattr(again, name)
        assert column.dtype == other.dtype
        assert column.tobytes() == other.tobytes()


@given(st.binary(max_size=80))
def test_bytes_that_are_no_blob_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="blob"):
        decode(data)


@given(trajectories(), st.data())
def test_a_flipped_bit_is_noticed(arrays: TrajectoryArrays, data: st.DataObject) -> None:
    blob = bytearray(encode(arrays))
    bit = data.draw(st.integers(0, 8 * len(blob) - 1))
    blob[bit // 8] ^= 1 << (bit % 8)
    try:
        again = decode(bytes(blob))
    except ValueError:
        return
    # zlib's own header has two bits that carry no content: those alone may flip unnoticed
    assert encode(again) == encode(arrays)


def test_a_truncated_blob_is_refused() -> None:
    blob = encode(TrajectoryArrays([1, 2, 3], [0, 1, 1], [0, -1, -2], [-1, 4, 4]))  # type: ignore[arg-type]
    for cut in range(len(blob)):
        with pytest.raises(ValueError, match="blob"):
            decode(blob[:cut])


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (([1, 2], [0], [0.0, 0.0], [-1, -1]), "differ in length"),
        (([1], [2], [0.0], [0]), "other than 0 and 1"),
        (([1], [1], [0.0], [-1]), "no weight version"),
        (([[1]], [1], [0.0], [0]), "2 dimensions"),
    ],
)
def test_columns_that_do_not_fit_together_are_refused(
    columns: tuple[list[int], ...], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        TrajectoryArrays(*(np.array(column) for column in columns))
