# The C side of _append_kernels.py; _portable_append.py has the same names for uncompiled runs.
cdef extern from "_native_append.h":
    object new_lock()
    int take_lock(object lock) except -1
    int drop_lock(object lock) except -1
    Py_ssize_t write_at(int fd, object buffer, long long position) except -1
