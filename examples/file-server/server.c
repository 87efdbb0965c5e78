/* A small threaded file server that embeds libforebay.
 *
 *   file-server SOCKET FOLDER [POLICY]
 *
 *   connection threads   read requests from clients and submit them
 *        on_batch        hands a batch that may go to the workers, and returns at once
 *   workers              carry a batch out in one system call, complete its requests, answer
 *
 * Requests that share bytes take effect in the order in which they arrived, whatever the policy and
 * however many workers there are: that, and the merging, is the library's part. SIGTERM ends the
 * server after everything that it took on is done; it then prints what it counted. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <forebay.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "wire.h"

#define WORKERS 4
#define FILES 64
#define CLIENTS 1024

/* A client. It lives until its thread and all its requests are done with it. */
struct connection {
    int socket;
    uint32_t number;
    unsigned users;
    pthread_mutex_t lock;
};

struct file {
    char name[NAME_BYTES];
    int descriptor;
    struct forebay_file key;
};

/* A request between its arrival and its answer; the library knows it by its address. */
struct job {
    struct connection *from;
    struct file *file;
    uint64_t cookie;
    uint32_t operation;
    uint32_t length;
    char data[];
};

/* A batch on its way to a worker. */
struct work {
    struct work *next;
    uint32_t operation;
    uint64_t offset;
    uint32_t count;
    struct forebay_turn turns[];
};

static struct forebay *controller;
static int folder;

static struct file files[FILES];
static unsigned file_count;
static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

static struct work *first, **last = &first;
static int is_over;
static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_there = PTHREAD_COND_INITIALIZER;

/* A client's place is free again when its reader has ended. */
static struct connection *connections[CLIENTS];
static unsigned reader_count;
static pthread_mutex_t connections_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reader_ended = PTHREAD_COND_INITIALIZER;

static void fail(const char *what, int error)
{
    fprintf(stderr, "file-server: %s: %s\n", what, error < 0 ? forebay_message() : strerror(error));
    exit(1);
}

static void leave(struct connection *connection)
{
    pthread_mutex_lock(&connection->lock);
    unsigned users = --connection->users;
    pthread_mutex_unlock(&connection->lock);
    if (users == 0) {
        close(connection->socket);
        pthread_mutex_destroy(&connection->lock);
        free(connection);
    }
}

/* Answers a request and forgets it. A client that is gone does not hear it. */
static void answer(struct job *job, int64_t result)
{
    struct wire_answer head = { job->cookie, result };
    size_t data = job->operation == FOREBAY_READ && result > 0 ? (size_t)result : 0;
    pthread_mutex_lock(&job->from->lock);
    if (transmit(job->from->socket, &head, sizeof head) == 0 && data > 0)
        (void)!transmit(job->from->socket, job->data, data);
    pthread_mutex_unlock(&job->from->lock);
    leave(job->from);
    free(job);
}

static struct job *job_of(const struct forebay_turn *turn)
{
    return (struct job *)(uintptr_t)turn->id;
}

/* Carries out `count` requests that touch each other, from `offset` on, in one call. */
static void carry_out(const struct forebay_turn *turns, uint32_t count, uint32_t operation, uint64_t offset)
{
    struct iovec pieces[IOV_MAX];
    int descriptor = job_of(turns)->file->descriptor;
    for (uint32_t i = 0; i < count; i++)
        pieces[i] = (struct iovec){ job_of(&turns[i])->data, turns[i].length };
    ssize_t moved;
    do {
        switch (operation) {
        case FOREBAY_READ:
            moved = preadv(descriptor, pieces, (int)count, (off_t)offset);
            break;
        case FOREBAY_WRITE:
            moved = pwritev(descriptor, pieces, (int)count, (off_t)offset);
            break;
        default:
            moved = fsync(descriptor);
        }
    } while (moved < 0 && errno == EINTR);
    int64_t error = moved < 0 ? -errno : 0;
    uint64_t left = moved < 0 ? 0 : (uint64_t)moved;
    for (uint32_t i = 0; i < count; i++) {
        /* Each request has its own result: a short transfer is short for the last ones. */
        uint64_t mine = left < turns[i].length ? left : turns[i].length;
        int64_t result = error < 0 ? error : (int64_t)mine;
        left -= mine;
        struct job *job = job_of(&turns[i]);
        forebay_complete(controller, turns[i].ticket, result);
        answer(job, result);
    }
}

/* Reads may overlap within a batch; what is carried out in one call must not. */
static uint32_t adjacent(const struct forebay_turn *turns, uint32_t count)
{
    uint32_t length = 1;
    while (length < count && length < IOV_MAX
           && turns[length].offset == turns[length - 1].offset + turns[length - 1].length)
        length++;
    return length;
}

static void *worker(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&work_lock);
        while (!first && !is_over)
            pthread_cond_wait(&work_there, &work_lock);
        struct work *work = first;
        if (work && !(first = work->next))
            last = &first;
        pthread_mutex_unlock(&work_lock);
        if (!work)
            return NULL;
        for (uint32_t at = 0, length; at < work->count; at += length) {
            length = adjacent(work->turns + at, work->count - at);
            carry_out(work->turns + at, length, work->operation, work->turns[at].offset);
        }
        free(work);
    }
}

/* The library's call: short, because it may run on any thread that submits or completes. */
static void on_batch(struct forebay *of, const struct forebay_batch *batch, void *user)
{
    (void)user;
    size_t bytes = batch->count * sizeof(struct forebay_turn);
    struct work *work = malloc(sizeof *work + bytes);
    if (!work) {
        for (uint32_t i = 0; i < batch->count; i++) {
            struct job *job = job_of(&batch->turns[i]);
            forebay_complete(of, batch->turns[i].ticket, -ENOMEM);
            answer(job, -ENOMEM);
        }
        return;
    }
    *work = (struct work){ NULL, batch->operation, batch->offset, batch->count };
    memcpy(work->turns, batch->turns, bytes);
    pthread_mutex_lock(&work_lock);
    *last = work;
    last = &work->next;
    pthread_mutex_unlock(&work_lock);
    pthread_cond_signal(&work_there);
}

/* The file of that name in the folder, opened once; NULL with errno set if there is none. */
static struct file *file_of(const char *name)
{
    if (name[0] == '\0' || strchr(name, '/') || !strcmp(name, ".") || !strcmp(name, "..")) {
        errno = EINVAL;
        return NULL;
    }
    pthread_mutex_lock(&files_lock);
    struct file *found = NULL;
    for (unsigned i = 0; i < file_count && !found; i++)
        found = strcmp(files[i].name, name) == 0 ? &files[i] : NULL;
    if (!found && file_count == FILES) {
        errno = ENFILE;
    } else if (!found) {
        struct file *file = &files[file_count];
        struct stat about;
        file->descriptor = openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (file->descriptor >= 0 && fstat(file->descriptor, &about) == 0) {
            strcpy(file->name, name);
            file->key = (struct forebay_file){ about.st_dev, about.st_ino };
            file_count++;
            found = file;
        }
    }
    pthread_mutex_unlock(&files_lock);
    return found;
}

/* Reads a client's requests until it hangs up or says something that makes no sense. */
static void *reader(void *argument)
{
    struct connection *connection = argument;
    struct wire_request asked;
    while (receive(connection->socket, &asked, sizeof asked) == 0) {
        asked.name[NAME_BYTES - 1] = '\0';
        if (asked.length > LENGTH_MAX)
            break;
        struct job *job = malloc(sizeof *job + asked.length);
        if (!job)
            break;
        *job = (struct job){ connection, NULL, asked.cookie, asked.operation, asked.length };
        if (asked.operation == FOREBAY_WRITE
            && receive(connection->socket, job->data, asked.length) != 0) {
            free(job);
            break;
        }
        pthread_mutex_lock(&connection->lock);
        connection->users++;
        pthread_mutex_unlock(&connection->lock);
        job->file = file_of(asked.name);
        if (!job->file) {
            answer(job, -errno);
            continue;
        }
        struct forebay_request request = {
            .id = (uintptr_t)job,
            .file = job->file->key,
            .offset = asked.offset,
            .length = asked.length,
            .operation = asked.operation,
            .client = connection->number,
            .class_id = connection->number,
        };
        int error = asked.operation == FOREBAY_ALONE ? -EINVAL
                                                     : forebay_submit(controller, &request, NULL);
        if (error < 0)
            answer(job, error);
    }
    shutdown(connection->socket, SHUT_RD);
    pthread_mutex_lock(&connections_lock);
    connections[connection->number] = NULL;
    pthread_mutex_unlock(&connections_lock);
    leave(connection);
    pthread_mutex_lock(&connections_lock);
    reader_count--;
    pthread_cond_signal(&reader_ended);
    pthread_mutex_unlock(&connections_lock);
    return NULL;
}

/* Gives a client a place and a reader; -1 if there is none left. */
static int serve(int socket)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return -1;
    connection->socket = socket;
    connection->users = 1; /* its reader */
    pthread_mutex_init(&connection->lock, NULL);
    pthread_mutex_lock(&connections_lock);
    while (connection->number < CLIENTS && connections[connection->number])
        connection->number++;
    pthread_t thread;
    int is_served = connection->number < CLIENTS && pthread_create(&thread, NULL, reader, connection) == 0;
    if (is_served) {
        pthread_detach(thread);
        connections[connection->number] = connection;
        reader_count++;
    }
    pthread_mutex_unlock(&connections_lock);
    if (!is_served) {
        pthread_mutex_destroy(&connection->lock);
        free(connection);
    }
    return is_served ? 0 : -1;
}

static void *acceptor(void *argument)
{
    int listener = *(int *)argument;
    for (;;) {
        int socket = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (socket >= 0) {
            if (serve(socket) != 0) {
                fprintf(stderr, "file-server: no room for another client\n");
                close(socket);
            }
        } else if (errno == EINVAL) {
            return NULL; /* shut down: the server ends */
        } else if (errno != EINTR && errno != ECONNABORTED) {
            /* Descriptors or memory are short; a client that leaves gives some back. */
            perror("file-server: accept");
            poll(NULL, 0, 100);
        }
    }
}

int main(int count, char **arguments)
{
    if (count < 3) {
        fprintf(stderr, "usage: file-server SOCKET FOLDER [POLICY]\n");
        return 2;
    }
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ending, NULL);
    signal(SIGPIPE, SIG_IGN);

    folder = open(arguments[2], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        fail(arguments[2], errno);
    struct forebay_options options;
    forebay_options_init(&options, sizeof options);
    options.on_batch = on_batch;
    options.depth = 8;
    options.sharing = FOREBAY_SHARE_SFQ; /* each client is a class: one cannot starve the others */
    options.account_rows = 64;
    if (count > 3)
        options.policy = arguments[3];
    int error = forebay_create(&options, &controller);
    if (error < 0)
        fail("forebay_create", error);

    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", arguments[1]);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 64) < 0)
        fail(arguments[1], errno);
    pthread_t accepting, workers[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        if ((error = pthread_create(&workers[i], NULL, worker, NULL)) != 0)
            fail("worker", error);
    if ((error = pthread_create(&accepting, NULL, acceptor, &listener)) != 0)
        fail("acceptor", error);
    puts("ready");
    fflush(stdout);

    int which;
    sigwait(&ending, &which);
    /* No more clients, no more requests; then what is there is done, then the rest goes away. */
    shutdown(listener, SHUT_RDWR);
    pthread_join(accepting, NULL);
    pthread_mutex_lock(&connections_lock);
    for (unsigned i = 0; i < CLIENTS; i++)
        if (connections[i])
            shutdown(connections[i]->socket, SHUT_RD);
    while (reader_count > 0)
        pthread_cond_wait(&reader_ended, &connections_lock);
    pthread_mutex_unlock(&connections_lock);
    error = forebay_drain(controller, -1);
    if (error < 0)
        fail("forebay_drain", error);
    pthread_mutex_lock(&work_lock);
    is_over = 1;
    pthread_mutex_unlock(&work_lock);
    pthread_cond_broadcast(&work_there);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);

    int bytes = forebay_statistics(controller, NULL, 0);
    char *text = bytes > 0 ? malloc((size_t)bytes + 4096) : NULL;
    if (text && forebay_statistics(controller, text, (size_t)bytes + 4096) > 0)
        puts(text);
    free(text);
    error = forebay_destroy(controller);
    if (error < 0)
        fail("forebay_destroy", error);
    for (unsigned i = 0; i < file_count; i++)
        close(files[i].descriptor);
    close(listener);
    close(folder);
    unlink(arguments[1]);
    return 0;
}
