"""Decimal numbers in text to arrays, eight digits at a time.

A number of up to eight digits before and eight after the point is read exactly: its digits make a
whole number below 2^53, and dividing that by a power of ten below 10^22 rounds once, as `float()`
does. Everything else (exponents, more digits, no number at all) is only marked, for the caller to
read slowly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_PAD = b"0" * 8
_U = np.uint64
_ZEROS = _U(0x3030303030303030)  # "00000000"
_ABOVE_NINE = _U(0x7676767676767676)  # added to a byte above 9 it sets the high bit
_HIGH_BITS = _U(0x8080808080808080)
_PAIR_MASK = _U(0x000000FF000000FF)
_HUNDREDS = _U((1_000_000 << 32) + 100)
_ONES = _U((10_000 << 32) + 1)
_UNUSED_BITS = _U(8) * np.arange(8, -1, -1, dtype=np.uint64)  # of 8 bytes, by length
_POWERS = 10.0 ** np.arange(9)
_EXACT = float(2**53)


def words_of(text: bytes) -> Words:
    """[len(text) + 1] the eight bytes that end before each position, first byte lowest."""
    padded = _PAD + text
    return np.ndarray((len(text) + 1,), dtype="<u8", buffer=padded, strides=(1,))


def whole_numbers(words: Words, starts: Ints, ends: Ints) -> tuple[Words, Bools]:
    """Read text[start:end] as digits.

    Args:
        words: from `words_of`.
        starts: [n] first byte of each.
        ends: [n] one past the last byte of each.

    Returns:
        [n] the numbers, and [n] whether each has 0 to 8 bytes, all digits (no digits are 0).
    """
    lengths = ends - starts
    fine = (lengths >= 0) & (lengths <= 8)
    unused_bits = _UNUSED_BITS[np.clip(lengths, 0, 8)]
    digits = words[ends]
    digits ^= _ZEROS
    digits >>= unused_bits  # numpy gives 0 when all 64 bits are shifted out: no digits, no number
    digits <<= unused_bits
    fine &= ((digits + _ABOVE_NINE) | digits) & _HIGH_BITS == 0
    pairs = digits >> _U(8)
    digits *= _U(10)
    digits += pairs
    fours = (digits & _PAIR_MASK) * _HUNDREDS
    digits >>= _U(16)
    digits &= _PAIR_MASK
    digits *= _ONES
    digits += fours
    digits >>= _U(32)
    return digits, fine


def decimals(words: Words, starts: Ints, dots: Ints, ends: Ints) -> tuple[Floats, Bools]:
    """Read text[start:end] as a number with a sign, digits, and perhaps a point and digits.

    Args:
        words: from `words_of`.
        starts: [n] first byte of each.
        dots: [n] where its point stands; its end when it has none.
        ends: [n] one past the last byte of each.

    Returns:
        [n] the numbers, and [n] whether each was read exactly; the others are to be read slowly.
    """
    first_byte = words[starts + 1] >> _U(56)
    negative = first_byte == ord("-")
    unsigned_starts = starts + negative
    before, fine = whole_numbers(words, unsigned_starts, dots)
    after_starts = np.minimum(dots + 1, ends)
    after, fine_after = whole_numbers(words, after_starts, ends)
    n_after = ends - after_starts
    scale = _POWERS[np.minimum(n_after, 8)]
    mantissa = before * scale
    mantissa += after
    n_digits = (dots - unsigned_starts) + n_after
    fine &= fine_after & (n_digits > 0) & (mantissa <= _EXACT)
    mantissa /= scale
    np.negative(mantissa, out=mantissa, where=negative)
    return mantissa, fine
