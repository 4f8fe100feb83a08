# The calls of `disk` as C functions, for compiled code that reads or writes a file.
cdef Py_ssize_t write_at(int file, object buffer, long long position) except -1

cdef bytes read_at(int file, Py_ssize_t size, long long position)

cdef Py_ssize_t read_resident(int file, unsigned char* data, Py_ssize_t start, Py_ssize_t end, long long position) except? -1
