/* Keyed digests, slots and wrapping arithmetic for the cleaner's kernels.
 *
 * The offset map knows a key by its SipHash of 128 bits, with a secret of this process: a client
 * that chooses keys cannot aim at a slot or find two keys with one digest. It has one round a block
 * and three at the end, like that of the dictionaries of Python and Rust.
 */
#ifndef SILTSTONE_NATIVE_MAP_H
#define SILTSTONE_NATIVE_MAP_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t load_little(const uint8_t *data) {
    uint64_t number;
    memcpy(&number, data, sizeof number);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    number = __builtin_bswap64(number);
#endif
    return number;
}

static inline uint64_t rotate_left(uint64_t number, int bits) {
    return number << bits | number >> (64 - bits);
}

static inline void mix_rounds(uint64_t *v, int rounds) {
    uint64_t a = v[0], b = v[1], c = v[2], d = v[3];
    for (; rounds; rounds--) {
        a += b;
        c += d;
        b = rotate_left(b, 13) ^ a;
        d = rotate_left(d, 16) ^ c;
        a = rotate_left(a, 32);
        c += b;
        a += d;
        b = rotate_left(b, 17) ^ c;
        d = rotate_left(d, 21) ^ a;
        c = rotate_left(c, 32);
    }
    v[0] = a;
    v[1] = b;
    v[2] = c;
    v[3] = d;
}

/* SipHash with 128 bits of output (Aumasson, Bernstein): `c` rounds a block, `d` at the end. */
static inline void sip_digest(const uint8_t *data, size_t size, const long long *seed,
                              long long *digest, int c, int d) {
    uint64_t low = (uint64_t)seed[0], high = (uint64_t)seed[1];
    uint64_t v[4] = {low ^ UINT64_C(0x736f6d6570736575), high ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
                     low ^ UINT64_C(0x6c7967656e657261), high ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)size << 56;
    size_t left = size;
    for (; left >= 8; data += 8, left -= 8) {
        uint64_t block = load_little(data);
        v[3] ^= block;
        mix_rounds(v, c);
        v[0] ^= block;
    }
    for (size_t at = 0; at < left; at++) {
        last |= (uint64_t)data[at] << (8 * at);
    }
    v[3] ^= last;
    mix_rounds(v, c);
    v[0] ^= last;
    v[2] ^= 0xee;
    mix_rounds(v, d);
    digest[0] = (long long)(v[0] ^ v[1] ^ v[2] ^ v[3]);
    v[1] ^= 0xdd;
    mix_rounds(v, d);
    digest[1] = (long long)(v[0] ^ v[1] ^ v[2] ^ v[3]);
}

static inline void digest_key(const uint8_t *data, Py_ssize_t start, Py_ssize_t size,
                              const long long *numbers, Py_ssize_t seed, long long *digests,
                              Py_ssize_t at) {
    sip_digest(data + start, (size_t)size, numbers + seed, digests + at, 1, 3);
}

/* Add the digest of a key that stays to a sum; its secret is public: 0 and 0. */
static inline void add_digest(const uint8_t *data, Py_ssize_t start, Py_ssize_t size,
                              long long *sum, Py_ssize_t at) {
    static const long long seed[2] = {0, 0};
    long long digest[2];
    sip_digest(data + start, (size_t)size, seed, digest, 1, 3);
    uint64_t low = (uint64_t)sum[at] + (uint64_t)digest[0];
    sum[at + 1] = (long long)((uint64_t)sum[at + 1] + (uint64_t)digest[1] +
                              (low < (uint64_t)digest[0]));
    sum[at] = (long long)low;
}

/* The slot of a digest among `count`; a greater digest has no smaller slot. */
static inline long long home_of(long long digest, long long count) {
    return (long long)((unsigned __int128)(uint64_t)digest * (uint64_t)count >> 64);
}

static inline long long spread(long long number) {
    return (long long)((uint64_t)number * UINT64_C(0x9E3779B97F4A7C15));
}

/* Prefetch a slot of the map; one in four lies in two lines of the cache. */
static inline void prefetch(const long long *numbers, long long at) {
    __builtin_prefetch(numbers + at);
    __builtin_prefetch(numbers + at + 2);
}

static inline long long wrapping_add(long long a, long long b) {
    return (long long)((uint64_t)a + (uint64_t)b);
}

static inline long long wrapping_subtract(long long a, long long b) {
    return (long long)((uint64_t)a - (uint64_t)b);
}

#endif
