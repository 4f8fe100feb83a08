cdef long long replica_of(object request) except? -1
