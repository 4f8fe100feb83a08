/* System calls of a sender thread, for _sending_kernels.py; see _native_sending.pxd.
 *
 * Calls that fail return the negative error number: errno is the thread's and need not travel.
 */
#ifndef SILTSTONE_NATIVE_SENDING_H
#define SILTSTONE_NATIVE_SENDING_H

#include <errno.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

/* Wait for one socket that has room, or for the descriptor that ends the threads. */
static inline int wait_for_room(int epoll) {
    struct epoll_event event;
    while (epoll_wait(epoll, &event, 1, -1) < 1) {
        if (errno != EINTR) return -errno;
    }
    return event.data.fd;
}

/* Have a socket reported once more, when it has room again. */
static inline void watch_again(int epoll, int socket) {
    struct epoll_event event = {.events = EPOLLOUT | EPOLLONESHOT, .data.fd = socket};
    epoll_ctl(epoll, EPOLL_CTL_MOD, socket, &event);
}

static inline long long send_file(int socket, int file, long long position, long long count) {
    off_t at = position;
    ssize_t sent = sendfile(socket, file, &at, (size_t)count);
    return sent < 0 ? -errno : sent;
}

/* Send the last bytes of a number as it lies in memory. */
static inline long long send_octets(int socket, long long octets, long long count) {
    const char *end = (const char *)(&octets + 1);
    ssize_t sent = send(socket, end - count, (size_t)count, MSG_NOSIGNAL);
    return sent < 0 ? -errno : sent;
}

/* Write the number of a socket that is done with; the pipe has room for all of them at once. */
static inline void report(int done, long long socket) {
    while (write(done, &socket, sizeof socket) < 0 && errno == EINTR) {
    }
}

#endif
