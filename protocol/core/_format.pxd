# The bytes of batches and records, for compiled code: the header, varints, the one parser of a
# record; `protocol.records.record` has the same in Python. Functions and types of C are declared in
# `_format.h`.
from libc.errno cimport EAGAIN, EINTR
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

include "constants.pxi"  # protocol/core/constants.py, as the build writes it

cdef extern from "_format.h" nogil:
    ctypedef struct Region "Py_buffer":
        const unsigned char* buf
        Py_ssize_t len

    ctypedef struct Target "Py_buffer":
        unsigned char* buf
        Py_ssize_t len

    void prepare()
    Region no_region "nothing" ()
    Target no_target "nothing" ()
    unsigned int checksum(const unsigned char* data, Py_ssize_t start, Py_ssize_t end)
    unsigned int checksum_software(const unsigned char* data, Py_ssize_t start, Py_ssize_t end)
    unsigned int continue_checksum(unsigned int value, const unsigned char* data, Py_ssize_t start, Py_ssize_t end)
    void copy(unsigned char* output, Py_ssize_t at, const unsigned char* data, Py_ssize_t start, Py_ssize_t end)
    unsigned long long read_little64(const unsigned char* data)
    long long read_int64(const unsigned char* data, Py_ssize_t position)
    long long read_int32(const unsigned char* data, Py_ssize_t position)
    bint sum_reaches(long long a, long long b, long long c)
    short read_int16(const unsigned char* data, Py_ssize_t position)
    unsigned int read_uint32(const unsigned char* data, Py_ssize_t position)
    void write_int64(unsigned char* output, Py_ssize_t at, long long number)
    void write_int32(unsigned char* output, Py_ssize_t at, long long number)
    void write_int16(unsigned char* output, Py_ssize_t at, long long number)


cdef extern from "<sys/socket.h>" nogil:
    int MSG_MORE

cdef extern from "_format.h":
    int acquire(object buffer, Region region) except -1
    int acquire_target "acquire_writable" (object buffer, Target target) except -1
    void release(Region region)
    void release_target "release" (Target target)
    unsigned char* inside(object octets)
    object field_of(object row, Py_ssize_t column)
    object row_of(object type, tuple fields)


cdef struct Header:
    long long base_offset
    long long length
    long long leader_epoch
    int magic
    unsigned int crc
    int attributes
    long long last_offset_delta
    long long base_timestamp
    long long max_timestamp
    long long producer_id
    long long producer_epoch
    long long base_sequence
    long long count


cdef inline Header read_header(const unsigned char* batch) noexcept nogil:
    cdef Header header
    header.base_offset = read_int64(batch, 0)
    header.length = read_int32(batch, LENGTH_POSITION)
    header.leader_epoch = read_int32(batch, LEADER_EPOCH_POSITION)
    header.magic = batch[MAGIC_POSITION]
    header.crc = read_uint32(batch, CRC_POSITION)
    header.attributes = read_int16(batch, ATTRIBUTES_POSITION)
    header.last_offset_delta = read_int32(batch, LAST_OFFSET_DELTA_POSITION)
    header.base_timestamp = read_int64(batch, BASE_TIMESTAMP_POSITION)
    header.max_timestamp = read_int64(batch, MAX_TIMESTAMP_POSITION)
    header.producer_id = read_int64(batch, PRODUCER_ID_POSITION)
    header.producer_epoch = read_int16(batch, PRODUCER_EPOCH_POSITION)
    header.base_sequence = read_int32(batch, BASE_SEQUENCE_POSITION)
    header.count = read_int32(batch, COUNT_POSITION)
    return header


# Reads the header of a batch that these bytes contain whole; otherwise tells why not, and how many
# bytes are needed.
cdef inline bint read_whole(
    const unsigned char* batch, Py_ssize_t size, Header* header, int* status, Py_ssize_t* needed
) noexcept nogil:
    status[0] = WANTS_MORE
    needed[0] = HEADER_SIZE
    if size < HEADER_SIZE:
        return False
    header[0] = read_header(batch)
    if header.length < MIN_LENGTH:
        status[0] = SHORT_LENGTH
    elif header.magic != MAGIC:
        status[0] = WRONG_MAGIC
    elif header.length + LOG_OVERHEAD > size:
        needed[0] = header.length + LOG_OVERHEAD
    else:
        return True
    return False


# Writes all fields except the checksum, which is computed from the written bytes.
cdef inline void write_header(unsigned char* batch, Header header) noexcept nogil:
    write_int64(batch, 0, header.base_offset)
    write_int32(batch, LENGTH_POSITION, header.length)
    write_int32(batch, LEADER_EPOCH_POSITION, header.leader_epoch)
    batch[MAGIC_POSITION] = <unsigned char> header.magic
    write_int16(batch, ATTRIBUTES_POSITION, header.attributes)
    write_int32(batch, LAST_OFFSET_DELTA_POSITION, header.last_offset_delta)
    write_int64(batch, BASE_TIMESTAMP_POSITION, header.base_timestamp)
    write_int64(batch, MAX_TIMESTAMP_POSITION, header.max_timestamp)
    write_int64(batch, PRODUCER_ID_POSITION, header.producer_id)
    write_int16(batch, PRODUCER_EPOCH_POSITION, header.producer_epoch)
    write_int32(batch, BASE_SEQUENCE_POSITION, header.base_sequence)
    write_int32(batch, COUNT_POSITION, header.count)


# Whether a difference, or a sum, does not fit into 64 bits.
cdef inline bint is_far(long long a, long long b) noexcept nogil:
    if b > 0:
        return a < INT64_MIN + b
    return a > INT64_MAX + b


cdef inline bint leaves_64_bits(long long base, long long delta) noexcept nogil:
    if delta > 0:
        return base > INT64_MAX - delta
    return base < INT64_MIN - delta


# The right checksum of a batch; `length` is the length in its header.
cdef inline unsigned int batch_checksum(const unsigned char* batch, long long length) noexcept nogil:
    return checksum(batch, ATTRIBUTES_POSITION, length + LOG_OVERHEAD)


# Varints. If the position after a number is -1, the number is broken.
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

# A number of 32 bits and the position after it.
cdef inline (long long, Py_ssize_t) read_varint(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil:
    cdef long long number
    if position < end:
        number = data[position]
        if number < 0x80:
            return (number >> 1) ^ -(number & 1), position + 1
    number, position = read_zigzag(data, position, end, 28)
    if number < INT32_MIN or number > INT32_MAX:
        return 0, -1
    return number, position

# A number of 64 bits and the position after it.
cdef inline (long long, Py_ssize_t) read_varlong(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil:
    cdef long long number
    if position < end:
        number = data[position]
        if number < 0x80:
            return (number >> 1) ^ -(number & 1), position + 1
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


cdef struct Record:
    Py_ssize_t stop  # where the record ends
    int attributes
    long long timestamp_delta
    long long offset_delta
    Py_ssize_t tail  # the size of the key; from here on records of any place are alike
    long long key_size  # -1: null; the same holds for the value
    Py_ssize_t key
    long long value_size
    Py_ssize_t value
    long long header_count
    Py_ssize_t headers  # where the first header begins


# A size (-1 for null) and the position of its bytes; the position may be a fault.
cdef inline (long long, Py_ssize_t) read_field(const unsigned char* data, Py_ssize_t position, Py_ssize_t end) noexcept nogil:
    cdef long long size
    size, position = read_varint(data, position, end)
    if position < 0:
        return 0, BAD_NUMBER
    if size < -1 or size > end - position:
        return 0, BAD_FIELD
    return size, position


# Returns the position after so many headers, or a fault.
cdef inline Py_ssize_t skip_headers(const unsigned char* data, Py_ssize_t position, Py_ssize_t end, long long count) noexcept nogil:
    cdef long long size
    if count < 0 or count > end - position:
        return BAD_HEADERS
    while count > 0:
        size, position = read_field(data, position, end)
        if position < 0:
            return position
        if size < 0:
            return BAD_HEADERS
        size, position = read_field(data, position + size, end)
        if position < 0:
            return position
        position += max(size, 0)
        count -= 1
    return position


# Reads a record up to its value, and leaves its headers unread; FINE, or what is wrong with it.
cdef inline long long read_front(const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Record* record) noexcept nogil:
    cdef long long size
    size, position = read_varint(data, position, end)
    if position < 0:
        return BAD_NUMBER
    if size < 1 or size > end - position:
        return BAD_LENGTH
    end = position + size
    record.stop = end
    record.attributes = data[position]
    record.timestamp_delta, position = read_varlong(data, position + 1, end)
    if position < 0:
        return BAD_NUMBER
    record.offset_delta, position = read_varint(data, position, end)
    if position < 0:
        return BAD_NUMBER
    record.tail = position
    record.key_size, position = read_field(data, position, end)
    if position < 0:
        return position
    record.key = position
    record.value_size, position = read_field(data, position + max(record.key_size, 0), end)
    if position < 0:
        return position
    record.value = position
    return FINE


# Reads the record at a position; FINE, or what is wrong with it.
cdef inline long long read_record(const unsigned char* data, Py_ssize_t position, Py_ssize_t end, Record* record) noexcept nogil:
    cdef long long fault = read_front(data, position, end, record)
    if fault < 0:
        return fault
    end = record.stop
    record.header_count, position = read_varint(data, record.value + max(record.value_size, 0), end)
    if position < 0:
        return BAD_NUMBER
    record.headers = position
    if record.header_count != 0:
        position = skip_headers(data, position, end, record.header_count)
        if position < 0:
            return position
    return FINE if position == end else BAD_BODY
