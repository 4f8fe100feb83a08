/* Receiving and sending by a socket's descriptor, for _turn_kernels.py; see _native_transport.pxd.
 *
 * Calls that fail return the negative error number, so that "not now" is no exception.
 */
#ifndef SILTSTONE_NATIVE_TRANSPORT_H
#define SILTSTONE_NATIVE_TRANSPORT_H

#include <Python.h>
#include <errno.h>
#include <sys/socket.h>

static inline Py_ssize_t receive_octets(int socket, unsigned char *data, Py_ssize_t start,
                                        Py_ssize_t end) {
    ssize_t received = recv(socket, data + start, (size_t)(end - start), 0);
    return received < 0 ? -errno : received;
}

static inline Py_ssize_t send_octets(int socket, const unsigned char *data, Py_ssize_t size) {
    ssize_t sent = send(socket, data, (size_t)size, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

#endif
