# The C side of _turn_kernels.py; _portable_transport.py has the same names for uncompiled runs.
cdef extern from "_native_transport.h" nogil:
    enum: EAGAIN
    enum: EINTR

    Py_ssize_t receive_octets(int socket, unsigned char* data, Py_ssize_t start, Py_ssize_t end)
    Py_ssize_t send_octets(int socket, const unsigned char* data, Py_ssize_t size)
