/* A log's lock and its write, for _append_kernels.py; see _native_append.pxd. */
#ifndef SILTSTONE_NATIVE_APPEND_H
#define SILTSTONE_NATIVE_APPEND_H

#include <Python.h>
#include <errno.h>
#include <unistd.h>

static void free_lock(PyObject *lock) {
    PyThread_free_lock(PyCapsule_GetPointer(lock, NULL));
}

static inline PyObject *new_lock(void) {
    PyThread_type_lock lock = PyThread_allocate_lock();
    if (lock == NULL) {
        return PyErr_NoMemory();
    }
    PyObject *owner = PyCapsule_New(lock, NULL, free_lock);
    if (owner == NULL) {
        PyThread_free_lock(lock);
    }
    return owner;
}

/* Waits without the GIL, since whoever holds the lock may need it to let go. */
static inline int take_lock(PyObject *owner) {
    PyThread_type_lock lock = PyCapsule_GetPointer(owner, NULL);
    if (lock == NULL) {
        return -1;
    }
    if (!PyThread_acquire_lock(lock, NOWAIT_LOCK)) {
        Py_BEGIN_ALLOW_THREADS
        PyThread_acquire_lock(lock, WAIT_LOCK);
        Py_END_ALLOW_THREADS
    }
    return 0;
}

static inline int drop_lock(PyObject *owner) {
    PyThread_type_lock lock = PyCapsule_GetPointer(owner, NULL);
    if (lock == NULL) {
        return -1;
    }
    PyThread_release_lock(lock);
    return 0;
}

/* What os.pwrite does, with the GIL. */
static inline Py_ssize_t write_at(int fd, PyObject *buffer, long long position) {
    Py_buffer view;
    if (PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    ssize_t written;
    do {
        written = pwrite(fd, view.buf, (size_t)view.len, (off_t)position);
    } while (written < 0 && errno == EINTR && PyErr_CheckSignals() == 0);
    if (written < 0 && !PyErr_Occurred()) {
        PyErr_SetFromErrno(PyExc_OSError);
    }
    PyBuffer_Release(&view);
    return written;
}

#endif
