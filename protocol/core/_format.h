/* Checksums, big-endian loads, buffers, and calls of the system; see _format.pxd.
 *
 * CRC-32C, reflected polynomial 0x82F63B78. Where the CPU has SSE4.2 and PCLMULQDQ (asked at
 * import), three independent chains hide the three cycles of the crc32 instruction; their results
 * meet by carry-less multiplication with x^(8n-33) mod P, which the crc32 of the product reduces.
 * Everywhere else: slicing-by-8, eight table look-ups for eight bytes.
 */
#ifndef SILTSTONE_FORMAT_H
#define SILTSTONE_FORMAT_H

#include <Python.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define SILTSTONE_HAS_CRC_INSTRUCTION 1
#include <cpuid.h>
#include <nmmintrin.h>
#include <wmmintrin.h>
#endif

#define acquire(buffer, region) PyObject_GetBuffer((buffer), &(region), PyBUF_SIMPLE)
#define release(region) PyBuffer_Release(&(region))
#define acquire_writable(buffer, region) PyObject_GetBuffer((buffer), &(region), PyBUF_WRITABLE)

#define POLYNOMIAL UINT32_C(0x82F63B78)

typedef uint32_t (*crc_function)(uint32_t, const uint8_t *, size_t);

static uint32_t crc_table[8][256];

static inline Py_buffer nothing(void) {
    Py_buffer region = {0};
    return region;
}

#define inside(octets) ((uint8_t *)PyBytes_AS_STRING(octets))

static inline void copy(uint8_t *output, Py_ssize_t at, const uint8_t *data, Py_ssize_t start,
                        Py_ssize_t end) {
    memcpy(output + at, data + start, (size_t)(end - start));
}

static inline uint64_t read_uint64(const uint8_t *data, Py_ssize_t position) {
    uint64_t number;
    memcpy(&number, data + position, sizeof number);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    number = __builtin_bswap64(number);
#endif
    return number;
}

static inline uint32_t read_uint32(const uint8_t *data, Py_ssize_t position) {
    uint32_t number;
    memcpy(&number, data + position, sizeof number);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    number = __builtin_bswap32(number);
#endif
    return number;
}

static inline uint64_t read_little64(const uint8_t *data) {
    uint64_t number;
    memcpy(&number, data, sizeof number);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    number = __builtin_bswap64(number);
#endif
    return number;
}

static inline int64_t read_int64(const uint8_t *data, Py_ssize_t position) {
    return (int64_t)read_uint64(data, position);
}

/* Wide, so that no sum of what was read leaves its type. */
static inline long long read_int32(const uint8_t *data, Py_ssize_t position) {
    return (int32_t)read_uint32(data, position);
}

static inline int sum_reaches(long long a, long long b, long long c) {
    return (__int128)a + b >= c;
}

static inline int16_t read_int16(const uint8_t *data, Py_ssize_t position) {
    return (int16_t)(((uint16_t)data[position] << 8) | data[position + 1]);
}

static inline void write_int64(uint8_t *output, Py_ssize_t at, long long number) {
    uint64_t bits = (uint64_t)number;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bits = __builtin_bswap64(bits);
#endif
    memcpy(output + at, &bits, sizeof bits);
}

static inline void write_int32(uint8_t *output, Py_ssize_t at, long long number) {
    uint32_t bits = (uint32_t)number;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    bits = __builtin_bswap32(bits);
#endif
    memcpy(output + at, &bits, sizeof bits);
}

static inline void write_int16(uint8_t *output, Py_ssize_t at, long long number) {
    output[at] = (uint8_t)((uint64_t)number >> 8);
    output[at + 1] = (uint8_t)number;
}

/* Rows are tuples, or of NamedTuple classes; the classes' own methods would cost more. */
static inline PyObject *field_of(PyObject *row, Py_ssize_t column) {
    if (!PyTuple_Check(row) || column >= PyTuple_GET_SIZE(row)) {
        PyErr_SetString(PyExc_TypeError, "a row with more columns is expected");
        return NULL;
    }
    return Py_NewRef(PyTuple_GET_ITEM(row, column));
}

static inline PyObject *row_of(PyObject *type, PyObject *fields) {
    Py_ssize_t count = PyTuple_GET_SIZE(fields);
    PyObject *row = PyType_GenericAlloc((PyTypeObject *)type, count);
    for (Py_ssize_t column = 0; row != NULL && column < count; column++) {
        PyTuple_SET_ITEM(row, column, Py_NewRef(PyTuple_GET_ITEM(fields, column)));
    }
    return row;
}

static uint32_t crc_software(uint32_t crc, const uint8_t *data, size_t size) {
    while (size >= 8) {
        uint32_t low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 |
                              (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
        crc = crc_table[7][low & 0xFF] ^ crc_table[6][low >> 8 & 0xFF] ^
              crc_table[5][low >> 16 & 0xFF] ^ crc_table[4][low >> 24] ^
              crc_table[3][data[4]] ^ crc_table[2][data[5]] ^
              crc_table[1][data[6]] ^ crc_table[0][data[7]];
        data += 8;
        size -= 8;
    }
    while (size--) {
        crc = crc >> 8 ^ crc_table[0][(crc ^ *data++) & 0xFF];
    }
    return crc;
}

static crc_function crc_chosen = crc_software;

#ifdef SILTSTONE_HAS_CRC_INSTRUCTION

#ifdef __clang__ /* its name for a part of sse4.2 that a processor may be declared to lack */
#define CRC_TARGET "sse4.2,crc32,pclmul"
#else
#define CRC_TARGET "sse4.2,pclmul"
#endif

/* Lane lengths in bytes: multiples of 8, for buffers of three lanes and more. */
enum { LONG_LANE = 4096, SHORT_LANE = 256, TINY_LANE = 40, LANES = 3 };

static uint32_t fold_long[2], fold_short[2], fold_tiny[2];

/* The product of two polynomials mod P; bit 31 is x^0. */
static uint32_t crc_multiply(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (int bit = 31; bit >= 0; bit--) {
        if (a >> bit & 1) {
            product ^= b;
        }
        b = b & 1 ? b >> 1 ^ POLYNOMIAL : b >> 1;
    }
    return product;
}

/* x^n mod P. */
static uint32_t crc_power(unsigned n) {
    uint32_t result = UINT32_C(1) << 31;
    uint32_t square = UINT32_C(1) << 30;
    for (; n; n >>= 1) {
        if (n & 1) {
            result = crc_multiply(result, square);
        }
        square = crc_multiply(square, square);
    }
    return result;
}

static inline uint64_t crc_word(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, sizeof word);
    return word;
}

__attribute__((target(CRC_TARGET))) static inline uint64_t crc_lanes(
    uint64_t crc, const uint8_t *data, size_t lane, const uint32_t *fold) {
    uint64_t second = 0, third = 0;
    for (size_t at = 0; at < lane; at += 8) {
        crc = _mm_crc32_u64(crc, crc_word(data + at));
        second = _mm_crc32_u64(second, crc_word(data + lane + at));
        third = _mm_crc32_u64(third, crc_word(data + 2 * lane + at));
    }
    __m128i moved = _mm_xor_si128(
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi32_si128((int)fold[1]), 0),
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)second), _mm_cvtsi32_si128((int)fold[0]), 0));
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(moved)) ^ third;
}

__attribute__((target(CRC_TARGET))) static uint32_t crc_hardware(
    uint32_t start, const uint8_t *data, size_t size) {
    uint64_t crc = start;
    for (; size >= LANES * LONG_LANE; data += LANES * LONG_LANE, size -= LANES * LONG_LANE) {
        crc = crc_lanes(crc, data, LONG_LANE, fold_long);
    }
    for (; size >= LANES * SHORT_LANE; data += LANES * SHORT_LANE, size -= LANES * SHORT_LANE) {
        crc = crc_lanes(crc, data, SHORT_LANE, fold_short);
    }
    for (; size >= LANES * TINY_LANE; data += LANES * TINY_LANE, size -= LANES * TINY_LANE) {
        crc = crc_lanes(crc, data, TINY_LANE, fold_tiny);
    }
    for (; size >= 8; data += 8, size -= 8) {
        crc = _mm_crc32_u64(crc, crc_word(data));
    }
    for (; size; data++, size--) {
        crc = _mm_crc32_u8((uint32_t)crc, *data);
    }
    return (uint32_t)crc;
}

static void crc_fold(uint32_t *fold, unsigned lane) {
    fold[0] = crc_power(8 * lane - 33);
    fold[1] = crc_power(16 * lane - 33);
}

#endif

/* Build the tables and choose; once, when the module is imported. */
static inline void prepare(void) {
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1;
        }
        crc_table[0][byte] = crc;
    }
    for (int slice = 1; slice < 8; slice++) {
        for (unsigned byte = 0; byte < 256; byte++) {
            uint32_t crc = crc_table[slice - 1][byte];
            crc_table[slice][byte] = crc >> 8 ^ crc_table[0][crc & 0xFF];
        }
    }
#ifdef SILTSTONE_HAS_CRC_INSTRUCTION
    /* Not __builtin_cpu_supports, which says no to everything where Zig's runtime is linked. */
    unsigned a, b, has, d;
    if (__get_cpuid(1, &a, &b, &has, &d) && has & bit_SSE4_2 && has & bit_PCLMUL) {
        crc_fold(fold_long, LONG_LANE);
        crc_fold(fold_short, SHORT_LANE);
        crc_fold(fold_tiny, TINY_LANE);
        crc_chosen = crc_hardware;
    }
#endif
}

static inline uint32_t checksum(const uint8_t *data, Py_ssize_t start, Py_ssize_t end) {
    return ~crc_chosen(UINT32_C(0xFFFFFFFF), data + start, (size_t)(end - start));
}

static inline uint32_t continue_checksum(uint32_t value, const uint8_t *data, Py_ssize_t start, Py_ssize_t end) {
    return ~crc_chosen(~value, data + start, (size_t)(end - start));
}

static inline uint32_t checksum_software(const uint8_t *data, Py_ssize_t start, Py_ssize_t end) {
    return ~crc_software(UINT32_C(0xFFFFFFFF), data + start, (size_t)(end - start));
}

#endif
