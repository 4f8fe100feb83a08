# The C side of _sending_kernels.py; _portable_sending.py has the same names for uncompiled runs.
cdef extern from "_native_sending.h" nogil:
    enum: EAGAIN
    enum: EINTR
    enum: EIO

    int wait_for_room(int epoll)
    void watch_again(int epoll, int socket)
    long long send_file(int socket, int file, long long position, long long count)
    long long send_octets(int socket, long long octets, long long count)
    void report(int done, long long socket)

# The columns of sending_slots.py
cdef enum:
    FILE = 0
    POSITION = 1
    LEFT = 2
    TAIL = 3
    TAIL_SIZE = 4
    ERROR = 5
    WIDTH = 8
