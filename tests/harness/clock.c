/* A clock that is set: put before the C library with LD_PRELOAD, below an ordinary build of the
 * server.
 *
 * Only the clock that tells the time of day is another one, as after `date --set`; those that count
 * go on as they did. Rust's standard library asks with clock_gettime.
 *
 *   BULKHEAD_CLOCK_AHEAD=FILE     the time of day is ahead (or behind, below zero) by as many
 *                                 seconds as FILE says at that moment: eight bytes, as they are in
 *                                 memory
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const volatile int64_t *ahead;

static void begin(void) {
    const char *name = getenv("BULKHEAD_CLOCK_AHEAD");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *seen = file < 0
        ? MAP_FAILED
        : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (seen == MAP_FAILED) {
        fputs("BULKHEAD_CLOCK_AHEAD is no file of eight bytes\n", stderr);
        abort();
    }
    ahead = seen;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && clock == CLOCK_REALTIME) {
        pthread_once(&once, begin);
        now->tv_sec += *ahead;
    }
    return failed;
}
