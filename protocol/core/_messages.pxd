# The grid, for other compiled modules; _messages.pyx explains it.
cimport cython

@cython.final
cdef class Grid:
    cdef readonly Py_ssize_t width
    cdef Py_ssize_t count
    cdef long long* numbers  # count rows of width columns
    cdef list columns  # a list of other values for each column that has them; None: no column
    cdef object table  # the table of the rows' structures; None: plain tuples

    cpdef put(self, Py_ssize_t place, Py_ssize_t column, long long number)

    cpdef put_column(self, Py_ssize_t column, list values)

    cdef put_other(self, Py_ssize_t place, Py_ssize_t column, object value)

    cdef object cell(self, Py_ssize_t place, Py_ssize_t column)

    cdef object row(self, Py_ssize_t place)

cpdef Grid grid_of(object rows, Py_ssize_t width)


# The place and the column exist.
cdef inline long long cell_of(Grid grid, Py_ssize_t place, Py_ssize_t column) noexcept:
    return grid.numbers[place * grid.width + column]


cdef inline void put_cell(Grid grid, Py_ssize_t place, Py_ssize_t column, long long number) noexcept:
    grid.numbers[place * grid.width + column] = number


cdef inline object value_of(Grid grid, Py_ssize_t place, Py_ssize_t column):
    return grid.cell(place, column)
