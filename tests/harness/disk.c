/* Faults of a disk, injected into an ordinary build of the server with LD_PRELOAD.
 *
 * Affected are only files of BULKHEAD_DISK_DIR that hold data: SQLite's `bulkhead.db`, `-wal` and
 * `-journal` (not `-shm`, which SQLite rebuilds after a crash), the key of a dev server, which is
 * first written under another name, and an audit file `trail.log` in another folder. An act is a
 * write, a flush, a truncation, a removal, or the rename of the key. SQLite's Unix layer writes
 * with pwrite64 or lseek and write, flushes with fsync, truncates with ftruncate64 and removes with
 * unlink. If a build used another call, the tests would find a log that does not match the files.
 *
 *   BULKHEAD_DISK_LOG=FILE        appends every act to FILE in the order of execution: a header of
 *                                 24 bytes (kind, file, six unused, length, offset), then the
 *                                 written bytes
 *   BULKHEAD_DISK_FULL=BYTES      the disk is full after BYTES written bytes, until
 *                                 BULKHEAD_DISK_LOG.space exists; as on a real disk, the last write
 *                                 is truncated
 *   BULKHEAD_DISK_EIO=N           the N-th flush fails once; as in Linux, the next flush succeeds
 *   BULKHEAD_DISK_KILL=N          kills the process before the N-th act
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

enum kind { WRITE = 'W', CUT = 'T', REMOVE = 'U', RENAME = 'R', FLUSH = 'S', FAILED_FLUSH = 'F' };
enum file {
    NONE = 0, DATABASE = 'd', LOG = 'w', JOURNAL = 'j', KEY = 'k', UNFINISHED_KEY = 'n',
    AUDIT = 'a', FOLDER = 'f'
};

struct header {
    char kind;
    char file;
    char unused[6];
    uint64_t length;
    uint64_t offset;
};

/* Locked during a call and the write of its entry, so that the log has the order of the calls. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static char directory[PATH_MAX];
static char space[PATH_MAX];
static int log_file = -1;
static int64_t room = INT64_MAX;
static int64_t flushes_until_failure = INT64_MAX;
static int64_t acts_until_death = INT64_MAX;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off64_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off64_t);
static int (*real_unlink)(const char *);
static int (*real_rename)(const char *, const char *);

static void give_up(const char *what) {
    (void)!syscall(SYS_write, 2, what, strlen(what));
    _exit(86);
}

static void begin(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_rename = dlsym(RTLD_NEXT, "rename");
    const char *below = getenv("BULKHEAD_DISK_DIR");
    const char *log = getenv("BULKHEAD_DISK_LOG");
    const char *full = getenv("BULKHEAD_DISK_FULL");
    const char *eio = getenv("BULKHEAD_DISK_EIO");
    const char *death = getenv("BULKHEAD_DISK_KILL");
    if (below == NULL || log == NULL)
        give_up("disk.so needs BULKHEAD_DISK_DIR and BULKHEAD_DISK_LOG\n");
    snprintf(directory, sizeof directory, "%s/", below);
    snprintf(space, sizeof space, "%s.space", log);
    log_file = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_file < 0) give_up("disk.so cannot open its log\n");
    if (full != NULL) room = atoll(full);
    if (eio != NULL) flushes_until_failure = atoll(eio);
    if (death != NULL) acts_until_death = atoll(death);
}

static enum file named(const char *path) {
    pthread_once(&once, begin);
    size_t length = strlen(directory);
    if (strlen(path) == length - 1 && strncmp(path, directory, length - 1) == 0) return FOLDER;
    if (strncmp(path, directory, length) != 0) return NONE;
    const char *name = path + length;
    if (strcmp(name, "bulkhead.db") == 0) return DATABASE;
    if (strcmp(name, "bulkhead.db-wal") == 0) return LOG;
    if (strcmp(name, "bulkhead.db-journal") == 0) return JOURNAL;
    if (strcmp(name, "dev-seal.unfinished") == 0) return UNFINISHED_KEY;
    if (strcmp(name, "trail.log") == 0) return AUDIT;
    return strcmp(name, "dev-seal.key") == 0 ? KEY : NONE;
}

/* Looked up at each call and not stored at open, because a file descriptor may be reused. */
static enum file numbered(int number) {
    char link[64], path[PATH_MAX];
    pthread_once(&once, begin);
    snprintf(link, sizeof link, "/proc/self/fd/%d", number);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return NONE;
    path[length] = 0;
    return named(path);
}

static void append(const void *bytes, size_t length) {
    const char *rest = bytes;
    while (length > 0) {
        ssize_t done = syscall(SYS_write, log_file, rest, length);
        if (done < 0) give_up("disk.so cannot write its log\n");
        rest += done;
        length -= (size_t)done;
    }
}

static void enter(enum kind kind, enum file file, uint64_t offset, const void *bytes,
                  uint64_t length) {
    struct header header = {
        .kind = (char)kind, .file = (char)file, .length = length, .offset = offset
    };
    append(&header, sizeof header);
    if (bytes != NULL) append(bytes, length);
}

/* Takes the lock before an act, or kills the process. */
static void take_turn(void) {
    pthread_mutex_lock(&turn);
    if (--acts_until_death == 0) kill(getpid(), SIGKILL);
}

/* Number of bytes that still fit. */
static size_t fitting(size_t asked) {
    if (room == INT64_MAX) return asked;
    if (access(space, F_OK) == 0) {
        room = INT64_MAX;
        return asked;
    }
    return room < (int64_t)asked ? (size_t)(room > 0 ? room : 0) : asked;
}

static ssize_t watched_write(int number, enum file file, const void *bytes, size_t length,
                             off64_t offset) {
    size_t fits = fitting(length);
    if (fits == 0 && length > 0) {
        errno = ENOSPC;
        return -1;
    }
    ssize_t done = real_pwrite(number, bytes, fits, offset);
    if (done > 0) {
        if (room != INT64_MAX) room -= done;
        enter(WRITE, file, (uint64_t)offset, bytes, (uint64_t)done);
    }
    return done;
}

ssize_t pwrite64(int number, const void *bytes, size_t length, off64_t offset) {
    enum file file = numbered(number);
    if (file == NONE) return real_pwrite(number, bytes, length, offset);
    take_turn();
    ssize_t done = watched_write(number, file, bytes, length, offset);
    pthread_mutex_unlock(&turn);
    return done;
}

ssize_t pwrite(int number, const void *bytes, size_t length, off_t offset) {
    return pwrite64(number, bytes, length, offset);
}

ssize_t write(int number, const void *bytes, size_t length) {
    enum file file = numbered(number);
    if (file == NONE) return real_write(number, bytes, length);
    take_turn();
    off64_t offset = lseek64(number, 0, SEEK_CUR);
    ssize_t done = watched_write(number, file, bytes, length, offset);
    if (done > 0) lseek64(number, done, SEEK_CUR);
    pthread_mutex_unlock(&turn);
    return done;
}

/* The first call of any function here sets the pointers, so a pointer to the pointer is passed. */
static int watched_flush(int number, int (**flush)(int)) {
    enum file file = numbered(number);
    if (file == NONE) return (*flush)(number);
    take_turn();
    int failed = --flushes_until_failure == 0;
    int done = failed ? -1 : (*flush)(number);
    enter(done == 0 ? FLUSH : FAILED_FLUSH, file, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    if (failed) errno = EIO;
    return done;
}

int fsync(int number) {
    return watched_flush(number, &real_fsync);
}

int fdatasync(int number) {
    return watched_flush(number, &real_fdatasync);
}

int ftruncate64(int number, off64_t length) {
    enum file file = numbered(number);
    if (file == NONE) return real_ftruncate(number, length);
    take_turn();
    int done = real_ftruncate(number, length);
    if (done == 0) enter(CUT, file, (uint64_t)length, NULL, 0);
    pthread_mutex_unlock(&turn);
    return done;
}

int ftruncate(int number, off_t length) {
    return ftruncate64(number, length);
}

int unlink(const char *path) {
    enum file file = named(path);
    if (file == NONE) return real_unlink(path);
    take_turn();
    int done = real_unlink(path);
    if (done == 0) enter(REMOVE, file, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    return done;
}

int rename(const char *from, const char *to) {
    if (named(from) != UNFINISHED_KEY || named(to) != KEY) return real_rename(from, to);
    take_turn();
    int done = real_rename(from, to);
    if (done == 0) enter(RENAME, UNFINISHED_KEY, 0, NULL, 0);
    pthread_mutex_unlock(&turn);
    return done;
}
