// A load generator small enough to cost little beside a broker on the same two cores.
//
//   load produce|fetch|idle|first|floor|sendfile|play|answers NAME=VALUE...
//
// produce   closed loop (connections x inflight), or open loop when rate > 0; count ends it early;
//           own=1: each connection sends one frame again and again, else all of them in turn
// fetch     closed loop over partitions that hold equal batches; sink=copy reads, sink=drop lets
//           the kernel throw the bytes away (MSG_TRUNC)
// idle      open connections, one request on each, "held", then wait until stdin ends
// first     connect and ask until every frame is answered without an error: the first ack
// floor     a server that gives one canned answer to each frame and stores nothing
// sendfile  a bare sendfile loop over connections= to a sink: no fetch can be faster
//
// Python (bench/frames.py) makes every frame, so that nothing here knows Kafka's protocol but the
// positions that it is given: error_at of the error code in an answer, offset_at of the fetch offset in
// a request, records_at of the record bytes' length in an answer. One thread, epoll, latencies
// from the moment a request is due to its last byte. The result is one line of JSON.
//
// load.h has what the modes share, floor.h the servers, play.h the scripts of clients (play, answers);
// all is one program of one thread.

#include "load.h"
#include "floor.h"
#include "play.h"

// Sends what is issued, straight from the frames: connection c sends frame (c + k) % count as its
// k-th, or its own frame if it has one.
static void flush(Connection *c, long place, int epoll) {
    while (c->unsent) {
        struct iovec parts[PARTS];
        int count = 0;
        size_t left = c->unsent;
        uint64_t position = c->sent;
        while (left && count < PARTS) {
            size_t inside = position % frame_size, size = frame_size - inside;
            uint8_t *frame = c->request ? c->request
                                        : frames + (place + position / frame_size) % frame_count * frame_size;
            if (size > left) size = left;
            parts[count++] = (struct iovec){frame + inside, size};
            left -= size;
            position += size;
        }
        ssize_t sent = writev(c->fd, parts, count);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent <= 0) fail("the broker closed the connection: %s", strerror(errno));
        c->sent += sent;
        c->unsent -= sent;
    }
    if ((c->unsent != 0) != c->writing) {
        c->writing = c->unsent != 0;
        struct epoll_event event = {.events = EPOLLIN | (c->writing ? EPOLLOUT : 0), .data.u64 = place};
        epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
    }
}

static void issue(Connection *c, int64_t due) {
    if (c->issued - c->answered >= RING) return;  // open loop, hopelessly behind: not one more
    c->due[c->issued++ % RING] = due;
    c->unsent += frame_size;
}

static void answered(Connection *c, int64_t at) { observe(at - c->due[c->answered++ % RING]); }

static void check_error(const uint8_t *error) {
    if ((error[0] || error[1]) && errors++ == 0)
        fprintf(stderr, "load: an answer has error code %d\n", (int16_t)(error[0] << 8 | error[1]));
}

// Takes whole small answers; what is left of the last one stays in head. Returns how many came.
static long take_produced(Connection *c, long error_at) {
    memcpy(scratch, c->head, c->got);
    ssize_t size = recv(c->fd, scratch + c->got, 64 << 10, 0);
    if (size < 0 && errno == EAGAIN) return 0;
    if (size <= 0) fail("the broker closed the connection");
    size_t end = c->got + size, position = 0;
    int64_t at = now();
    long count = 0;
    while (end - position >= 4) {
        size_t whole = 4 + get32(scratch + position);
        if (end - position < whole) break;
        check_error(scratch + position + error_at);
        answered(c, at);
        bytes += frame_size;
        position += whole;
        count++;
    }
    c->got = end - position;
    if (c->got > sizeof c->head) fail("an answer of %u bytes is too long", get32(scratch + position));
    memcpy(c->head, scratch + position, c->got);
    return count;
}

typedef struct { long error_at, records_at, offset_at, batch_bytes, batch_records, first_offset, end_offset; int flags; } Fetch;

// Takes a part of a fetch answer: its head up to the length of the records, then their bytes.
static long take_fetched(Connection *c, const Fetch *f) {
    size_t want = f->records_at + 5;
    for (;;) {
        ssize_t size;
        if (c->got < want)
            size = recv(c->fd, c->head + c->got, want - c->got, 0);
        else
            size = recv(c->fd, scratch, c->left < SCRATCH ? c->left : SCRATCH, f->flags);
        if (size < 0 && errno == EAGAIN) return 0;
        if (size <= 0) fail("the broker closed the connection");
        if (c->got == want) {
            c->left -= size;
        } else {
            c->got += size;
            if (c->got < want) continue;
            size_t whole = 4 + get32(c->head);
            if (whole < want) fail("an answer of %zu bytes is too short", whole);
            c->left = whole - want;
        }
        if (c->left) continue;
        check_error(c->head + f->error_at);
        uint64_t length = 0;
        for (long i = f->records_at, shift = 0; shift < 35; shift += 7) {
            uint8_t byte = c->head[i++];
            length |= (uint64_t)(byte & 127) << shift;
            if (byte < 128) break;
        }
        length = length ? length - 1 : 0;
        c->got = 0;
        if (length) {
            answered(c, now());
            bytes += length;
            c->offset += (int64_t)(length / f->batch_bytes ? length / f->batch_bytes : 1) * f->batch_records;
        } else {
            c->answered++;
            empty++;
            c->offset = f->end_offset;
        }
        if (c->offset >= f->end_offset) c->offset = f->first_offset;
        uint64_t big = htobe64(c->offset);
        memcpy(c->request + f->offset_at, &big, 8);
        return 1;
    }
}

static void run_load(int fetching) {
    long connections = number("connections", 1), inflight = number("inflight", 1);
    double rate = number("rate", 0), warmup = number("warmup", 1), seconds = number("seconds", 4);
    int pid = number("pid", 0), own = number("own", 0), timer = -1, epoll = epoll_create1(0);
    if (connections < 1 || inflight < 1 || inflight > RING) fail("connections and inflight are at least 1");
    read_frames();
    Fetch fetch = {0};
    fetch.error_at = number("error_at", 0);
    if (fetching) {
        fetch.records_at = number("records_at", 0);
        fetch.offset_at = number("offset_at", 0);
        fetch.batch_bytes = number("batch_bytes", 1);
        fetch.batch_records = number("batch_records", 1);
        fetch.first_offset = number("first_offset", 0);
        fetch.end_offset = number("end_offset", 1);
        fetch.flags = strcmp(text("sink", "copy"), "drop") ? 0 : MSG_TRUNC;
        if (fetch.records_at + 5 > (long)sizeof((Connection *)0)->head) fail("the topic's name is too long");
        if (inflight != 1) fail("a fetching connection has one request in flight");
    }
    Connection *all = calloc(connections, sizeof *all);
    for (long i = 0; i < connections; i++) {
        Connection *c = &all[i];
        if ((c->fd = try_connect()) < 0) fail("cannot connect: %s", strerror(errno));
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
        epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
        if (own) c->request = frames + i % frame_count * frame_size;
        if (fetching) {
            c->request = malloc(frame_size);
            memcpy(c->request, frames + i % frame_count * frame_size, frame_size);
            c->offset = fetch.first_offset
                + i * 7919 % (fetch.end_offset / fetch.batch_records) * fetch.batch_records;
            uint64_t big = htobe64(c->offset);
            memcpy(c->request + fetch.offset_at, &big, 8);
        }
    }
    int64_t start = now();
    if (rate > 0) {  // expires when a request is due: a timer that began earlier would find it not due yet
        timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        long period = 1e9 / rate > 1e5 ? 1e9 / rate : 1e5;
        struct itimerspec spec = {{period / 1000000000, period % 1000000000},
                                  {start / 1000000000, start % 1000000000}};
        timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, NULL);
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = connections};
        epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event);
    }
    int64_t begin = start + warmup * 1e9, end = begin + seconds * 1e9, next = start;
    int measuring = 0;
    double broker_cpu = 0, client_cpu = 0;
    long turn = 0, limit = number("count", 0);
    for (long i = 0; i < connections && rate <= 0; i++) {
        for (long k = 0; k < inflight; k++) issue(&all[i], start);
        flush(&all[i], i, epoll);
    }
    for (;;) {
        int64_t at = now();
        if (!measuring && at >= begin) {
            measuring = 1;
            begin = at;
            done = errors = empty = 0;
            bytes = slowest = 0;
            memset(fine, 0, sizeof fine);
            memset(coarse, 0, sizeof coarse);
            broker_cpu = process_cpu(pid);
            client_cpu = own_cpu(RUSAGE_SELF);
        }
        if (at >= end || (limit && measuring && done >= limit)) break;
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, 100);
        for (int i = 0; i < count; i++) {
            long place = events[i].data.u64;
            if (place == connections) {
                uint64_t expired;
                if (read(timer, &expired, 8) != 8) continue;
                for (at = now(); next <= at; next += 1e9 / rate) {
                    long to = turn++ % connections;
                    issue(&all[to], next);
                    flush(&all[to], to, epoll);
                }
                continue;
            }
            Connection *c = &all[place];
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                long came = fetching ? take_fetched(c, &fetch) : take_produced(c, fetch.error_at);
                at = now();
                for (; rate <= 0 && came; came--) issue(c, at);
            }
            flush(c, place, epoll);
        }
    }
    double took = (now() - begin) / 1e9;
    report(took, process_cpu(pid) - broker_cpu, own_cpu(RUSAGE_SELF) - client_cpu);
}

// Reads one whole answer; false if the connection ended.
static int read_answer(int fd) {
    size_t got = 0, want = 4;
    while (got < want) {
        ssize_t size = recv(fd, scratch + got, want - got, 0);
        if (size <= 0) return 0;
        got += size;
        if (got == 4 && want == 4) want = 4 + get32(scratch);
        if (want > SCRATCH) fail("an answer of %zu bytes is too long", want);
    }
    return 1;
}

// since= is CLOCK_MONOTONIC in ns. Error codes are looked for, at error_at, in the answers to requests of
// the last frame's API; what comes before them (Metadata, which makes the topic) may fail for a while.
static void run_first(void) {
    int64_t since = strtoll(text("since", "0"), NULL, 10), limit = now() + (int64_t)(number("limit", 60) * 1e9);
    long error_at = number("error_at", 0);
    uint8_t last_key = 0;
    read_frames();
    for (size_t at = 0; at < frames_size; at += 4 + get32(frames + at)) last_key = frames[at + 5];
    for (; now() < limit; usleep(1000)) {
        int fd = try_connect(), good = fd >= 0;
        for (size_t at = 0; good && at < frames_size; at += 4 + get32(frames + at)) {
            size_t size = 4 + get32(frames + at);
            good = send(fd, frames + at, size, MSG_NOSIGNAL) == (ssize_t)size && read_answer(fd);
            if (good && frames[at + 5] == last_key) good = !scratch[error_at] && !scratch[error_at + 1];
        }
        if (good) {
            printf("{\"seconds\": %.6f}\n", (now() - since) / 1e9);
            exit(0);
        }
        if (fd >= 0) close(fd);
    }
    fail("no answer without an error within the limit");
}

static void run_idle(void) {
    long connections = number("connections", 1000);
    struct rlimit limit = {connections + 64, connections + 64};
    setrlimit(RLIMIT_NOFILE, &limit);
    read_frames();
    for (long i = 0; i < connections; i++) {
        int fd = try_connect();
        if (fd < 0) fail("connection %ld: %s", i, strerror(errno));
        if (send(fd, frames, frame_size, 0) != (ssize_t)frame_size || !read_answer(fd)) fail("no answer");
    }
    puts("held");
    fflush(stdout);
    while (read(0, scratch, SCRATCH) > 0) {}
}

int main(int count, char **words) {
    if (count < 2) fail("usage: load produce|fetch|idle|first|floor|sendfile|play|answers NAME=VALUE...");
    arguments = count - 2;
    argument = words + 2;
    const char *mode = words[1];
    if (!strcmp(mode, "produce")) run_load(0);
    else if (!strcmp(mode, "fetch")) run_load(1);
    else if (!strcmp(mode, "idle")) run_idle();
    else if (!strcmp(mode, "first")) run_first();
    else if (!strcmp(mode, "floor")) run_floor();
    else if (!strcmp(mode, "sendfile")) run_sendfile();
    else if (!strcmp(mode, "play")) run_play();
    else if (!strcmp(mode, "answers")) run_answers();
    else fail("%s is not one of produce, fetch, idle, first, floor, sendfile, play, answers", mode);
    return 0;
}
