# The zig-zag numbers of records, inlined into each kernel that reads or writes them;
# _portable.py has the same names for uncompiled runs.

cdef inline (long long, Py_ssize_t) read_zigzag(const unsigned char* data, Py_ssize_t position, Py_ssize_t end, int last_shift) noexcept nogil:
    cdef unsigned long long rest = 0
    cdef unsigned long long byte
    cdef int shift = 0
    while position < end and shift <= last_shift:
        byte = data[position]
        position += 1
        rest |= (byte & 0x7F) << shift
        if byte < 0x80:
            if shift == 63 and byte > 1:
                break
            return <long long>((rest >> 1) ^ -(rest & 1)), position
        shift += 7
    return 0, -1

# A number of 32 bits and the position after it; position -1 if it is broken.
cdef inline (long long, Py_ssize_t) read_varint(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil:
    cdef long long number
    if position < end:
        number = data[position]
        if number < 0x80:
            return (number >> 1) ^ -(number & 1), position + 1
    number, position = read_zigzag(data, position, end, 28)
    if number < -2147483648 or number > 2147483647:
        return 0, -1
    return number, position

# A number of 64 bits and the position after it; position -1 if it is broken.
cdef inline (long long, Py_ssize_t) read_varlong(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil:
    return read_zigzag(data, position, end, 63)

cdef inline Py_ssize_t zigzag_size(long long number) noexcept nogil:
    cdef unsigned long long rest = (<unsigned long long>number << 1) ^ <unsigned long long>(number >> 63)
    cdef Py_ssize_t size = 1
    while rest > 0x7F:
        rest >>= 7
        size += 1
    return size

# Returns the position after the number.
cdef inline Py_ssize_t write_zigzag(unsigned char* output, Py_ssize_t position, long long number) noexcept nogil:
    cdef unsigned long long rest = (<unsigned long long>number << 1) ^ <unsigned long long>(number >> 63)
    while rest > 0x7F:
        output[position] = (rest & 0x7F) | 0x80
        position += 1
        rest >>= 7
    output[position] = <unsigned char>rest
    return position + 1
