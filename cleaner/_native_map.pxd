# The C side of the cleaner's kernel; _portable.py has the same names for uncompiled runs.
cdef extern from "_native_map.h" nogil:
    void digest_key(const unsigned char* data, Py_ssize_t start, Py_ssize_t size, const long long* numbers, Py_ssize_t seed, long long* digests, Py_ssize_t at)
    void add_digest(const unsigned char* data, Py_ssize_t start, Py_ssize_t size, long long* numbers, Py_ssize_t at)
    long long home_of(long long digest, long long count)
    long long spread(long long number)
    void prefetch(const long long* numbers, long long at)
    long long wrapping_add(long long a, long long b)
    long long wrapping_subtract(long long a, long long b)

# The numbers of slots.py
cdef enum:
    DONE = 0
    OPEN = 1
    FULL = 2
    WANTS_PRODUCERS = 3
    PLANS_FULL = 4
    OUTPUT_FULL = 5
    WANTS_SEGMENT = 6
    SHORT_LENGTH = -1
    WRONG_MAGIC = -2
    WRONG_CRC = -3
    OFFSET_BACKWARDS = -4
    BAD_COUNT = -5
    BAD_RECORD = -6
    TOO_LARGE = -7
    KEEP = 0
    KEEP_TOMBSTONE = 1
    SUPERSEDED = 2
    EXPIRED = 3
    NULL_KEY = 4
    DROP = 0
    WHOLE = 1
    STAMP = 2
    SOME = 3
    MODE = 7
    RETAIN_EMPTY = 8
    NOTHING = 0
    UNCHANGED = 1
    EMPTIED = 2
    REBUILT = 3
    BY_SUPERSEDED = 0
    BY_TOMBSTONE = 1
    BY_MARKER = 2
    BY_ABORTED = 3
    BY_NULL_KEY = 4
    REASONS = 5
    STATUS = 0
    POSITION = 1
    NEEDED = 2
    OPENED = 3
    LAST_OFFSET = 4
    FIRST_DIRTY = 5
    LATEST = 6
    MAP_KEYS = 7
    MAP_LIMIT = 8
    SEED = 9
    NOW = 11
    RETENTION = 12
    UPPER = 13
    ABORTED_COUNT = 14
    ABORTED_NEXT = 15
    PRODUCERS_USED = 16
    PLANS = 17
    PLAN = 18
    OUTPUT = 19
    OUTCOME = 20
    DIGEST = 21
    MAP_RECORDS = 23
    MAP_BATCHES = 24
    RECORDS_READ = 25
    BATCHES_READ = 26
    RECORDS_WRITTEN = 27
    BATCHES_WRITTEN = 28
    BATCHES_REBUILT = 29
    BATCHES_EMPTIED = 30
    HORIZONS_SET = 31
    HORIZONS_REACHED = 32
    DROPPED = 33
    NEXT_HORIZON = 43
    STATE_SLOTS = 44
    SEGMENT_SIZE = 3
    SINCE_INDEX = 4
    INTERVAL = 5
    BASE_OFFSET = 6
    END_OFFSET = 7
    FIRST_TIMESTAMP = 8
    MAX_TIMESTAMP = 9
    MAX_TIMESTAMP_OFFSET = 10
    LAST_TIME = 11
    OFFSET_BYTES = 12
    TIME_BYTES = 13
    INDEX_SLOTS = 14
    SLOT_NUMBERS = 3
    ROW_NUMBERS = 8
    WINDOW = 32
    PLAN_NUMBERS = 4
    ABORTED_NUMBERS = 4
    TRANSACTION_NUMBERS = 4
    PRODUCER_NUMBERS = 3
    LEAST_RECORD = 7
    GROWTH = 11
