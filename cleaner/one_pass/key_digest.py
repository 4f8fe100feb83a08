"""The digest of a set of keys: a receipt has that of the keys that survive a pass.

It is the sum, modulo 2^128, of the keys' SipHash-1-3 of 128 bits under the key 0. So it does not
depend on their order, and each key can be added when it is read. It shows accidental differences;
it does not protect against forgery.
"""

from typing import Final

MODULUS: Final = 1 << 128
_MASK: Final = (1 << 64) - 1


def sum_with(total: int, key: bytes) -> int:
    """Return the digest of a set with one more key; that of an empty set is 0."""
    return (total + sip_hash(key)) % MODULUS


def text_of(total: int) -> str:
    """Return a digest as receipts write it: 32 hexadecimal digits."""
    return f"{total:032x}"


def sip_hash(data: bytes, seed: tuple[int, int] = (0, 0), rounds: tuple[int, int] = (1, 3)) -> int:
    """Return the SipHash of 128 bits, the first half in the low bits (Aumasson, Bernstein).

    ``rounds`` are those of a block and those at the end; the published vectors are of (2, 4).
    """
    low, high = seed
    state = [
        low ^ 0x736F6D6570736575,
        high ^ 0x646F72616E646F6D ^ 0xEE,
        low ^ 0x6C7967656E657261,
        high ^ 0x7465646279746573,
    ]
    whole = len(data) & ~7
    blocks = [int.from_bytes(data[at : at + 8], "little") for at in range(0, whole, 8)]
    blocks.append((len(data) & 0xFF) << 56 | int.from_bytes(data[whole:], "little"))
    for block in blocks:
        state[3] ^= block
        _mix(state, rounds[0])
        state[0] ^= block
    state[2] ^= 0xEE
    _mix(state, rounds[1])
    first = state[0] ^ state[1] ^ state[2] ^ state[3]
    state[1] ^= 0xDD
    _mix(state, rounds[1])
    return first | (state[0] ^ state[1] ^ state[2] ^ state[3]) << 64


def _mix(state: list[int], rounds: int) -> None:
    a, b, c, d = state
    for _ in range(rounds):
        a = (a + b) & _MASK
        c = (c + d) & _MASK
        b = _rotate(b, 13) ^ a
        d = _rotate(d, 16) ^ c
        a = _rotate(a, 32)
        c = (c + b) & _MASK
        a = (a + d) & _MASK
        b = _rotate(b, 17) ^ c
        d = _rotate(d, 21) ^ a
        c = _rotate(c, 32)
    state[:] = a, b, c, d


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> (64 - bits)) & _MASK
