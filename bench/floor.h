// The servers: what no broker can beat against this client on this machine.

static int listen_any(void) {
    struct sockaddr_in at = address();
    socklen_t size = sizeof at;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&at, size) || listen(fd, 1024)) fail("listen: %s", strerror(errno));
    getsockname(fd, (struct sockaddr *)&at, &size);
    printf("{\"port\": %d}\n", ntohs(at.sin_port));
    fflush(stdout);
    return fd;
}

static void run_floor(void) {
    read_frames();
    static uint8_t answers[SCRATCH];
    for (size_t at = 0; at + frame_size <= SCRATCH; at += frame_size) memcpy(answers + at, frames, frame_size);
    int listener = listen_any(), epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
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
            size_t whole = 0;
            for (ssize_t position = 0; position < size;) {  // left: of this frame; got: of its size prefix
                if (!c->left) {
                    c->head[c->got++] = scratch[position++];
                    if (c->got < 4) continue;
                    c->got = 0;
                    c->left = get32(c->head);
                    continue;
                }
                size_t here = size - position < (ssize_t)c->left ? (size_t)(size - position) : c->left;
                position += here;
                if (!(c->left -= here)) whole++;
            }
            for (size_t room = SCRATCH / frame_size; whole;) {
                size_t some = whole < room ? whole : room;
                if (send(c->fd, answers, some * frame_size, MSG_NOSIGNAL) < 0) break;
                whole -= some;
            }
        }
    }
}

// One thread, one chunk a turn for each connection that has room; the sink is this process.
static void send_file_for_ever(int listener, long connections, int file, off_t file_size, size_t chunk) {
    int one = 1, epoll = epoll_create1(0);
    off_t *positions = calloc(connections, sizeof *positions);
    int *sockets = calloc(connections, sizeof *sockets);
    for (long i = 0; i < connections; i++) {
        sockets[i] = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        setsockopt(sockets[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        struct epoll_event event = {.events = EPOLLOUT, .data.u64 = i};
        epoll_ctl(epoll, EPOLL_CTL_ADD, sockets[i], &event);
    }
    for (;;) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, -1);
        for (int i = 0; i < count; i++) {
            off_t *position = &positions[events[i].data.u64];
            if (*position + (off_t)chunk > file_size) *position = 0;
            if (sendfile(sockets[events[i].data.u64], file, position, chunk) < 0 && errno != EAGAIN) _exit(0);
        }
    }
}

static void run_sendfile(void) {
    size_t chunk = number("bytes", 1 << 20);
    long connections = number("connections", 1);
    double seconds = number("seconds", 4);
    int file = open(text("file", NULL), O_RDONLY), flags = strcmp(text("sink", "copy"), "drop") ? 0 : MSG_TRUNC;
    struct stat status;
    if (file < 0 || fstat(file, &status) || status.st_size < (off_t)chunk) fail("the file is too short");
    signal(SIGPIPE, SIG_IGN);
    int listener = listen_any(), epoll = epoll_create1(0);
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    getsockname(listener, (struct sockaddr *)&at, &length);
    pid_t sender = fork();
    if (!sender) send_file_for_ever(listener, connections, file, status.st_size, chunk);
    for (long i = 0; i < connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&at, sizeof at)) fail("connect: %s", strerror(errno));
        struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
    int64_t start = now(), end = start + seconds * 1e9;
    while (now() < end) {
        struct epoll_event events[EVENTS];
        int count = epoll_wait(epoll, events, EVENTS, 100);
        for (int i = 0; i < count; i++) {
            ssize_t size = recv(events[i].data.fd, scratch, SCRATCH, flags);
            if (size <= 0) fail("the sender ended");
            bytes += size;
        }
    }
    double took = (now() - start) / 1e9, cpu = process_cpu(sender);
    kill(sender, SIGKILL);
    waitpid(sender, NULL, 0);
    done = bytes / chunk;
    report(took, cpu, own_cpu(RUSAGE_SELF));
}
