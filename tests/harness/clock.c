/* Another wall clock for an ordinary build of the server, injected with LD_PRELOAD.
 *
 * Only the wall clock differs, as after `date --set`; monotonic clocks do not change. Rust's
 * standard library calls clock_gettime.
 *
 *   BULKHEAD_CLOCK_AHEAD=FILE     FILE holds the seconds by which the wall clock is ahead
 *                                 (behind if negative): eight bytes in native order, which a test
 *                                 can change at any time
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
        fputs("BULKHEAD_CLOCK_AHEAD is not a file of eight bytes\n", stderr);
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
