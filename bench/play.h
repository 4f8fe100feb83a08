// Plays scripts: each connection sends its own frames, one after the other, again and again.
//
// play      closed loop, or open loop when rate > 0; count ends it early. The frames come from
//           bench/clients/scripts.py, which says what is written there
// answers   a server that knows a canned answer to each frame by its correlation id: no broker can
//           be faster

enum { COUNTER = 1, SEQUENCE = 2, ROOM = 64 << 10 };

typedef struct { uint32_t kind, at, step, crc_at, flips[32]; } Patch;

typedef struct {
    uint8_t *bytes;
    uint32_t size, answer_size, check_count, patch_count;
    uint32_t *checks;            // where in the answer an error code stands
    Patch *patches;
} Step;

typedef struct {
    int fd, writing;
    Step *steps;
    uint32_t step_count, inflight, counter;
    long issued, answered;       // frames since the start
    int64_t due[RING];
    uint8_t *out, *in;
    size_t out_start, out_end, out_room, in_got, in_room;
} Player;

static int play_tolerated;       // an error code that means: ask again

static void put32(uint8_t *p, uint32_t value) {
    p[0] = value >> 24, p[1] = value >> 16, p[2] = value >> 8, p[3] = value;
}

// Counters of a session rise by one a frame that has them.
static void count_up(Player *p, Step *step) {
    for (uint32_t i = 0; i < step->patch_count; i++)
        if (step->patches[i].kind == COUNTER) put32(step->bytes + step->patches[i].at, p->counter++);
}

// Sequences of a producer rise by what a cycle appends; the CRC of their batch follows bit by bit,
// since a CRC is linear.
static void raise_sequences(Step *step) {
    for (uint32_t i = 0; i < step->patch_count; i++) {
        Patch *patch = &step->patches[i];
        if (patch->kind != SEQUENCE) continue;
        uint8_t *at = step->bytes + patch->at;
        uint32_t old = get32(at), next = (old + patch->step) & 0x7fffffff, changed = old ^ next;
        uint32_t crc = get32(step->bytes + patch->crc_at);
        for (; changed; changed &= changed - 1) crc ^= patch->flips[__builtin_ctz(changed)];
        put32(at, next);
        put32(step->bytes + patch->crc_at, crc);
    }
}

static void play_flush(Player *p, long place, int epoll) {
    while (p->out_start < p->out_end) {
        ssize_t sent = send(p->fd, p->out + p->out_start, p->out_end - p->out_start, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) break;
        if (sent <= 0) fail("the broker closed the connection: %s", strerror(errno));
        p->out_start += sent;
    }
    if (p->out_start == p->out_end) p->out_start = p->out_end = 0;
    int writing = p->out_end != 0;
    if (writing != p->writing) {
        struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.u64 = place};
        epoll_ctl(epoll, EPOLL_CTL_MOD, p->fd, &event);
        p->writing = writing;
    }
}

static void play_issue(Player *p, int64_t due) {
    if (p->issued - p->answered >= RING) return;  // open loop, hopelessly behind: not one more
    Step *step = &p->steps[p->issued % p->step_count];
    p->due[p->issued % RING] = due;
    if (p->out_end + step->size > p->out_room) {
        memmove(p->out, p->out + p->out_start, p->out_end - p->out_start);
        p->out_end -= p->out_start;
        p->out_start = 0;
        if (p->out_end + step->size > p->out_room) {
            p->out_room = 2 * (p->out_end + step->size);
            p->out = realloc(p->out, p->out_room);
        }
    }
    count_up(p, step);
    memcpy(p->out + p->out_end, step->bytes, step->size);
    p->out_end += step->size;
    p->issued++;
    raise_sequences(step);  // for the next time
}

// False if the answer is a refusal that is tolerated: it is not counted, the client asks again.
static int play_check(const Step *step, const uint8_t *answer, size_t size) {
    const char *what = NULL;
    int code = 0;
    if (size < 8 || get32(answer + 4) != get32(step->bytes + 8)) fail("an answer is not to the oldest request");
    if (step->answer_size && size != step->answer_size) what = "is of another size";
    // An answer of another size has its first error code alone where it was.
    uint32_t count = what ? step->check_count != 0 : step->check_count;
    for (uint32_t i = 0; i < count; i++) {
        if (step->checks[i] + 2 > size) continue;
        const uint8_t *error = answer + step->checks[i];
        if (error[0] || error[1]) code = (int16_t)(error[0] << 8 | error[1]), what = "has an error code";
        if (code) break;
    }
    if (code && code == play_tolerated) return 0;
    if (what && errors++ == 0)
        fprintf(stderr, "load: the answer to API %d version %d %s: %zu bytes, error code %d\n",
                step->bytes[4] << 8 | step->bytes[5], step->bytes[6] << 8 | step->bytes[7], what, size, code);
    return 1;
}

// Takes whole answers; returns how many came. What is left of the last one stays in the buffer.
static long play_take(Player *p) {
    ssize_t size = recv(p->fd, p->in + p->in_got, p->in_room - p->in_got, 0);
    if (size < 0 && errno == EAGAIN) return 0;
    if (size <= 0) fail("the broker closed the connection");
    p->in_got += size;
    int64_t at = now();
    long came = 0;
    size_t position = 0;
    while (p->in_got - position >= 4) {
        size_t whole = 4 + (size_t)get32(p->in + position);
        if (p->in_got - position < whole) {
            if (whole > p->in_room) p->in = realloc(p->in, p->in_room = whole);
            break;
        }
        if (play_check(&p->steps[p->answered % p->step_count], p->in + position, whole)) {
            observe(at - p->due[p->answered % RING]);
            bytes += whole;
        }
        p->answered++;
        position += whole;
        came++;
    }
    p->in_got -= position;
    memmove(p->in, p->in + position, p->in_got);
    return came;
}

static const uint8_t *play_end, *play_at;

static const uint8_t *play_skip(size_t size) {
    const uint8_t *at = play_at;
    if ((size_t)(play_end - at) < size) fail("the scripts end too early");
    play_at += size;
    return at;
}

static uint32_t play_number(void) { return get32(play_skip(4)); }

static Player *read_scripts(long *count) {
    int fd = open(text("frames", NULL), O_RDONLY);
    struct stat status;
    if (fd < 0 || fstat(fd, &status)) fail("cannot read the scripts");
    uint8_t *data = malloc(status.st_size + 1);
    for (off_t got = 0; got < status.st_size;) {
        ssize_t size = read(fd, data + got, status.st_size - got);
        if (size <= 0) fail("cannot read the scripts");
        got += size;
    }
    close(fd);
    play_at = data, play_end = data + status.st_size;
    Player *all = calloc(*count = play_number(), sizeof *all);
    for (long i = 0; i < *count; i++) {
        Player *p = &all[i];
        p->inflight = play_number(), p->counter = play_number(), p->step_count = play_number();
        if (!p->step_count || !p->inflight || p->inflight > RING) fail("script %ld sends nothing", i);
        p->steps = calloc(p->step_count, sizeof *p->steps);
        for (uint32_t k = 0; k < p->step_count; k++) {
            Step *step = &p->steps[k];
            step->size = play_number(), step->answer_size = play_number();
            step->check_count = play_number(), step->patch_count = play_number();
            step->bytes = (uint8_t *)play_skip(step->size);
            step->checks = calloc(step->check_count + 1, sizeof *step->checks);
            for (uint32_t n = 0; n < step->check_count; n++) step->checks[n] = play_number();
            step->patches = calloc(step->patch_count + 1, sizeof *step->patches);
            for (uint32_t n = 0; n < step->patch_count; n++) {
                Patch *patch = &step->patches[n];
                patch->kind = play_number(), patch->at = play_number();
                patch->step = play_number(), patch->crc_at = play_number();
                if (patch->at + 4 > step->size || patch->crc_at + 4 > step->size) fail("a patch lies outside");
                if (patch->kind == SEQUENCE)
                    for (int bit = 0; bit < 32; bit++) patch->flips[bit] = play_number();
            }
        }
        p->in = malloc(p->in_room = ROOM), p->out = malloc(p->out_room = ROOM);
    }
    return all;
}

static void run_play(void) {
    double rate = number("rate", 0), warmup = number("warmup", 1), seconds = number("seconds", 4);
    int pid = number("pid", 0), epoll = epoll_create1(0), measuring = 0;
    long players, turn = 0, limit = number("count", 0);
    Player *all = read_scripts(&players);
    play_tolerated = number("tolerate", 0);
    for (long i = 0; i < players; i++) {
        if ((all[i].fd = try_connect()) < 0) fail("cannot connect: %s", strerror(errno));
        fcntl(all[i].fd, F_SETFL, O_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event);
    }
    int64_t start = now(), begin = start + warmup * 1e9, end = begin + seconds * 1e9, next = start;
    double broker_cpu = 0, client_cpu = 0;
    for (long i = 0; i < players && rate <= 0; i++) {
        for (uint32_t k = 0; k < all[i].inflight; k++) play_issue(&all[i], start);
        play_flush(&all[i], i, epoll);
    }
    for (;;) {
        int64_t at = now();
        if (!measuring && at >= begin) {
            measuring = 1;
            begin = at;
            done = errors = 0;
            bytes = slowest = 0;
            memset(fine, 0, sizeof fine);
            memset(coarse, 0, sizeof coarse);
            broker_cpu = process_cpu(pid);
            client_cpu = own_cpu(RUSAGE_SELF);
        }
        if (at >= end || (limit && measuring && done >= limit)) break;
        for (; rate > 0 && next <= at; next += 1e9 / rate) {
            long to = turn++ % players;
            play_issue(&all[to], next);
            play_flush(&all[to], to, epoll);
        }
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, rate > 0 ? 1 : 100);
        for (int i = 0; i < count; i++) {
            long place = events[i].data.u64;
            Player *p = &all[place];
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
                long came = play_take(p);
                at = now();
                for (; rate <= 0 && came; came--) play_issue(p, at);
            }
            play_flush(p, place, epoll);
        }
    }
    double took = (now() - begin) / 1e9;
    report(took, process_cpu(pid) - broker_cpu, own_cpu(RUSAGE_SELF) - client_cpu);
}

static void send_whole(int fd, const uint8_t *data, size_t size) {
    while (size) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            poll(&room, 1, -1);
            continue;
        }
        if (sent <= 0) return;
        data += sent;
        size -= sent;
    }
}

// Answers that end within one recv go out in one send. left: what of a frame is still to be skipped.
static void run_answers(void) {
    read_frames();
    long count = 0, room = 16;
    uint8_t **answers = malloc(room * sizeof *answers);
    for (size_t at = 0; at < frames_size; at += 4 + (size_t)get32(frames + at)) {
        if (count == room) answers = realloc(answers, (room *= 2) * sizeof *answers);
        answers[count++] = frames + at;
    }
    uint8_t *out = malloc(SCRATCH);
    int listener = listen_any(), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        struct epoll_event events[EVENTS];
        int ready = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            Connection *c = events[i].data.ptr;
            if (!c) {
                int one = 1;
                c = calloc(1, sizeof *c);
                c->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
                setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                event.data.ptr = c;
                epoll_ctl(epoll, EPOLL_CTL_ADD, c->fd, &event);
                continue;
            }
            ssize_t size = recv(c->fd, scratch, SCRATCH, 0);
            if (size < 0 && errno == EAGAIN) continue;
            if (size <= 0) {
                close(c->fd);
                free(c);
                continue;
            }
            size_t filled = 0;
            for (ssize_t position = 0; position < size;) {
                if (c->got < 12) {
                    c->head[c->got++] = scratch[position++];
                    if (c->got == 12) c->left = 4 + (size_t)get32(c->head) - 12;
                } else {
                    size_t here = (size_t)(size - position) < c->left ? (size_t)(size - position) : c->left;
                    position += here;
                    c->left -= here;
                }
                if (c->got < 12 || c->left) continue;
                const uint8_t *answer = answers[get32(c->head + 8) % count];
                size_t whole = 4 + (size_t)get32(answer);
                c->got = 0;
                if (filled + whole > SCRATCH) {
                    send_whole(c->fd, out, filled);
                    filled = 0;
                }
                if (whole > SCRATCH) {
                    send_whole(c->fd, answer, whole);
                } else {
                    memcpy(out + filled, answer, whole);
                    filled += whole;
                }
            }
            send_whole(c->fd, out, filled);
        }
    }
}
