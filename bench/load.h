// What the modes share: arguments, frames, connections, clocks, latencies, the line of JSON.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SCRATCH = 1 << 20, RING = 1 << 12, PARTS = 64, EVENTS = 256, FINE = 1000000, COARSE = 60000 };

typedef struct {
    int fd;
    long issued, answered;       // requests since the start
    size_t unsent;               // bytes of issued requests still to be sent
    uint64_t sent;               // bytes sent since the start
    int writing;                 // whether epoll watches for room
    int64_t due[RING];           // when each request in flight was due, ns
    uint8_t *request;            // this connection's own frame, if it has one
    uint8_t head[512];           // start of the answer that is arriving
    size_t got, left;            // bytes in head; bytes of the answer still to come
    int64_t offset;              // fetch: next offset
} Connection;

static uint8_t scratch[SCRATCH];
static uint8_t *frames;          // all frames, one after the other
static size_t frames_size, frame_size;
static long frame_count;
static uint32_t fine[FINE + 1], coarse[COARSE + 1];  // 1 us up to 1 s, 1 ms up to a minute
static long done, errors, empty;
static uint64_t bytes;
static int64_t slowest;
static int arguments;
static char **argument;

static void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    exit(1);
}

static const char *text(const char *name, const char *otherwise) {
    size_t length = strlen(name);
    for (int i = 0; i < arguments; i++)
        if (!strncmp(argument[i], name, length) && argument[i][length] == '=')
            return argument[i] + length + 1;
    if (!otherwise) fail("%s= is missing", name);
    return otherwise;
}

static double number(const char *name, double otherwise) {
    const char *value = text(name, "");
    return *value ? atof(value) : otherwise;
}

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static uint32_t get32(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }

static double process_cpu(int pid) {  // user and system seconds of all threads, 0 without a pid
    char path[64], line[1024];
    if (!pid) return 0;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(line, sizeof line, file)) fail("process %d is gone", pid);
    fclose(file);
    unsigned long user, system;
    char *rest = strrchr(line, ')');
    if (!rest || sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        fail("cannot read %s", path);
    return (double)(user + system) / sysconf(_SC_CLK_TCK);
}

static double own_cpu(int who) {
    struct rusage usage;
    getrusage(who, &usage);
    return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void read_frames(void) {
    const char *path = text("frames", NULL);
    int fd = open(path, O_RDONLY);
    struct stat status;
    if (fd < 0 || fstat(fd, &status)) fail("cannot read %s", path);
    frames_size = status.st_size;
    frames = malloc(frames_size);
    if (read(fd, frames, frames_size) != (ssize_t)frames_size) fail("cannot read %s", path);
    close(fd);
    frame_size = 4 + get32(frames);
    frame_count = frames_size / frame_size;
}

static struct sockaddr_in address(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((int)number("port", 0))};
    inet_pton(AF_INET, text("host", "127.0.0.1"), &to.sin_addr);
    return to;
}

static int try_connect(void) {
    struct sockaddr_in to = address();
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0) fail("socket: %s", strerror(errno));
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void observe(int64_t ns) {
    int64_t us = ns / 1000;
    if (us < FINE) fine[us]++;
    else coarse[us / 1000 < COARSE ? us / 1000 : COARSE]++;
    if (ns > slowest) slowest = ns;
    done++;
}

static double percentile(double share) {
    double wanted = share * done, seen = 0;
    for (long us = 0; us < FINE; us++)
        if ((seen += fine[us]) >= wanted) return us + 0.5;
    for (long ms = 0; ms <= COARSE; ms++)
        if ((seen += coarse[ms]) >= wanted) return ms * 1000.0;
    return 0;
}

static void report(double seconds, double broker_cpu, double client_cpu) {
    printf("{\"requests\": %ld, \"seconds\": %.3f, \"rps\": %.1f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
           "\"p999_us\": %.1f, \"max_us\": %.1f, \"bytes\": %llu, \"errors\": %ld, \"empty\": %ld, "
           "\"broker_cpu_seconds\": %.3f, \"client_cpu_seconds\": %.3f}\n",
           done, seconds, done / seconds, percentile(0.5), percentile(0.99), percentile(0.999),
           slowest / 1e3, (unsigned long long)bytes, errors, empty, broker_cpu, client_cpu);
    fflush(stdout);
}
