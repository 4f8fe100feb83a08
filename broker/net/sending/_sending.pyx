"""The loop of a sender thread: it sends file ranges to sockets while they have room.

It never holds the GIL.
"""

from libc.errno cimport EAGAIN, EINTR, EIO, errno
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy
from posix.types cimport off_t
from posix.unistd cimport write

cdef extern from "<sys/epoll.h>" nogil:
    enum:
        EPOLLONESHOT
        EPOLLOUT
        EPOLL_CTL_MOD

    ctypedef union epoll_data_t:
        int fd

    cdef struct epoll_event:
        uint32_t events
        epoll_data_t data

    int epoll_ctl(int epoll, int operation, int socket, epoll_event* event)
    int epoll_wait(int epoll, epoll_event* events, int most, int timeout)

cdef extern from "<sys/sendfile.h>" nogil:
    ssize_t sendfile(int socket, int file, off_t* position, size_t count)

cdef extern from "<sys/socket.h>" nogil:
    enum:
        MSG_NOSIGNAL

    ssize_t send(int socket, const void* data, size_t size, int flags)


cdef struct Row:  # as large as a cache line, so that threads do not share one
    int64_t file  # the descriptor to read from
    int64_t position  # where the rest of the range begins in it
    int64_t left  # how many bytes of the range are unsent
    char[8] tail  # what follows the range
    int64_t tail_at  # how many bytes of the tail have been sent
    int64_t tail_size
    int64_t error  # why sending ended; 0: everything has left
    int64_t unused


cdef class Table:
    """The rows that sender threads and the loop share, one for each socket.

    A row belongs to the loop until its socket is watched, and again after the socket is reported.
    In between the row belongs to the sender.
    """

    cdef Row* _rows
    cdef readonly int sockets

    def __cinit__(self, int sockets):
        self.sockets = sockets
        self._rows = <Row*> calloc(sockets, sizeof(Row))
        if self._rows == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self._rows)

    def fill(self, int socket, int file, int64_t position, int64_t size, bytes tail):
        """Set what to send to a socket: a range of a file, and then at most eight bytes."""
        if not 0 <= socket < self.sockets or len(tail) > 8:
            raise ValueError(f"socket {socket} of {self.sockets} cannot have {len(tail)} more bytes")
        cdef Row* row = &self._rows[socket]
        cdef const char* octets = tail
        row.file = file
        row.position = position
        row.left = size
        row.tail_at = 0
        row.tail_size = len(tail)
        memcpy(row.tail, octets, len(tail))

    def error_of(self, int socket) -> int:
        """Return the error number of a reported socket; 0 if everything was sent."""
        if not 0 <= socket < self.sockets:
            raise ValueError(f"socket {socket} is not one of {self.sockets}")
        return self._rows[socket].error

    def serve(self, int epoll, int stop, int done):
        """Send what the rows say, until ``stop`` is readable; ``epoll`` also watches ``stop``.

        A socket is watched for one report of room (EPOLLONESHOT), so that only one thread at a time
        has it. A socket without room is watched again and delays no other socket. When a socket has
        got everything, or has failed, its number is written to ``done``.
        """
        with nogil:
            serve_rows(self._rows, epoll, stop, done)


cdef void serve_rows(Row* rows, int epoll, int stop, int done) noexcept nogil:
    cdef int socket
    cdef int error
    while True:
        socket = wait_for_room(epoll)
        if socket < 0 or socket == stop:
            return
        error = send_row(&rows[socket], socket)
        if error == EAGAIN or error == EINTR:
            watch_again(epoll, socket)
        else:
            rows[socket].error = error
            report(done, socket)


# Returns 0 if everything has left, or an error number; EAGAIN: the socket is full.
cdef int send_row(Row* row, int socket) noexcept nogil:
    cdef off_t position
    cdef ssize_t sent
    while row.left > 0:
        position = row.position
        sent = sendfile(socket, <int> row.file, &position, <size_t> row.left)
        if sent <= 0:
            return errno if sent < 0 else EIO  # the file ends before the range does
        row.position += sent
        row.left -= sent
        if row.left > 0:
            return EAGAIN
    while row.tail_at < row.tail_size:
        sent = send(socket, row.tail + row.tail_at, <size_t> (row.tail_size - row.tail_at), MSG_NOSIGNAL)
        if sent < 0:
            return errno
        row.tail_at += sent
    return 0


# Waits for one socket that has room, or for the descriptor that ends the threads.
cdef int wait_for_room(int epoll) noexcept nogil:
    cdef epoll_event event
    while epoll_wait(epoll, &event, 1, -1) < 1:
        if errno != EINTR:
            return -1
    return event.data.fd


cdef void watch_again(int epoll, int socket) noexcept nogil:
    cdef epoll_event event
    event.events = EPOLLOUT | EPOLLONESHOT
    event.data.fd = socket
    epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event)


# Writes the number of a finished socket; the pipe has room for the numbers of all sockets.
cdef void report(int done, int64_t socket) noexcept nogil:
    while write(done, &socket, sizeof(socket)) < 0 and errno == EINTR:
        pass
