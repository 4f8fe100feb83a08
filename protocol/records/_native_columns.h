/* Stores into Arrow buffers, which have the byte order of the machine; see _native_columns.pxd. */
#ifndef SILTSTONE_NATIVE_COLUMNS_H
#define SILTSTONE_NATIVE_COLUMNS_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

static inline void store_int64(uint8_t *arena, Py_ssize_t start, Py_ssize_t index, int64_t number) {
    memcpy(arena + start + 8 * index, &number, sizeof number);
}

static inline void store_int32(uint8_t *arena, Py_ssize_t start, Py_ssize_t index, int64_t number) {
    int32_t lower = (int32_t)number;
    memcpy(arena + start + 4 * index, &lower, sizeof lower);
}

/* Bits of a byte are stored from the first on: that one clears the others. */
static inline void store_bit(uint8_t *arena, Py_ssize_t start, Py_ssize_t index, int bit) {
    uint8_t *byte = arena + start + (index >> 3);
    if ((index & 7) == 0) {
        *byte = (uint8_t)(bit != 0);
    } else {
        *byte = (uint8_t)(*byte | (bit != 0) << (index & 7));
    }
}

#endif
