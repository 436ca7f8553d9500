/* A clock that is ahead: put before the C library with LD_PRELOAD, below an ordinary build of the
 * server, which reads the system's clock once, when it starts.
 *
 *   BULKHEAD_CLOCK_AHEAD=SECONDS
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static time_t ahead;

__attribute__((constructor)) static void begin(void) {
    const char *seconds = getenv("BULKHEAD_CLOCK_AHEAD");
    ahead = seconds ? (time_t)strtol(seconds, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && clock == CLOCK_REALTIME) now->tv_sec += ahead;
    return status;
}
