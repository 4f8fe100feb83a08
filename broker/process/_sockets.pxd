cdef Py_ssize_t receive_octets(int socket, unsigned char* data, Py_ssize_t start, Py_ssize_t end) noexcept nogil
cdef Py_ssize_t send_octets(int socket, const unsigned char* data, Py_ssize_t size, int flags) noexcept nogil
