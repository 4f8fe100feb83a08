# Tables, grids, and the functions that every request calls; _messages.pyx explains them.
cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

cdef struct Field:
    int kind
    bint is_array
    bint is_nullable
    bint is_present
    bint is_error  # an error code: the writer reports those that are not zero
    int tag  # NO_TAG, or the number of a tagged field
    int64_t number  # the default of an integer
    PyObject* default  # kept alive by Table.kept
    PyObject* child  # the Table of a structure, kept alive likewise


@cython.final
cdef class Table:
    cdef object cls
    cdef object kept
    cdef readonly bint is_flexible
    cdef readonly Py_ssize_t min_size
    cdef bint is_numbers  # every field without a tag is an integer: its arrays are grids
    cdef Py_ssize_t text  # the text field if all other fields are integers, else -1
    cdef Py_ssize_t count
    cdef Py_ssize_t tagged  # how many fields of this version are tagged
    cdef Field* fields
    cdef int* tag_order  # the tagged fields by their tags

    cdef Py_ssize_t _min_size(self, Field* field) except -1


cpdef tuple read(
    Table table, object buffer, Py_ssize_t position, Py_ssize_t end, Py_ssize_t room, Py_ssize_t at_once=*
)

cpdef tuple read_head(object buffer, Py_ssize_t start, Py_ssize_t end, list served)

cpdef write_response(
    Table table, object row, int32_t correlation_id, bint has_tags, list errors, Py_ssize_t at_once=*
)


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
