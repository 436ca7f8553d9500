/* Counts the calls of a server to the C library: memory, copies, tasks, reads and writes. Loaded
 * with LD_PRELOAD into the build with failpoints, which allocates with the C library.
 *
 * BULKHEAD_COUNTS names a file of six numbers, which the library maps and counts in: allocations,
 * their bytes, bytes that memcpy and memmove copied, tasks, reads and writes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum count { ALLOCATIONS, BYTES, COPIED, TASKS, READS, WRITES, COUNTS };

/* Alignment of a task of tokio. Its channels and sockets have the same alignment, but no standard
 * request makes one. */
static const size_t TASK_ALIGNMENT = 128;

/* Counts before the file is mapped, which nobody reads. */
static uint64_t unmapped[COUNTS];
static uint64_t *counts = unmapped;

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

__attribute__((constructor)) static void map(void) {
    const char *path = getenv("BULKHEAD_COUNTS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    int access = PROT_READ | PROT_WRITE;
    void *mapped = mmap(NULL, COUNTS * sizeof(uint64_t), access, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) counts = mapped;
    close(file);
}

static void add(enum count which, uint64_t number) {
    __atomic_fetch_add(&counts[which], number, __ATOMIC_RELAXED);
}

static void allocated(size_t bytes) {
    add(ALLOCATIONS, 1);
    add(BYTES, bytes);
}

void *malloc(size_t bytes) {
    allocated(bytes);
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes) {
    allocated(number * bytes);
    return __libc_calloc(number, bytes);
}

void *realloc(void *old, size_t bytes) {
    allocated(bytes);
    return __libc_realloc(old, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    allocated(bytes);
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **place, size_t alignment, size_t bytes) {
    allocated(bytes);
    add(TASKS, alignment == TASK_ALIGNMENT);
    *place = __libc_memalign(alignment, bytes);
    return *place ? 0 : ENOMEM;
}

/* Defines a function that counts `number`, and calls the function of the C library. */
#define COUNTED_AS(number, which, type, name, parameters, arguments)                               \
    type name parameters {                                                                         \
        static void *found;                                                                        \
        void *real = __atomic_load_n(&found, __ATOMIC_RELAXED);                                    \
        if (!real) {                                                                               \
            real = dlsym(RTLD_NEXT, #name);                                                        \
            __atomic_store_n(&found, real, __ATOMIC_RELAXED);                                      \
        }                                                                                          \
        add(which, number);                                                                        \
        return ((type(*) parameters)real)arguments;                                                \
    }

#define COUNTED(which, type, name, parameters, arguments)                                          \
    COUNTED_AS(1, which, type, name, parameters, arguments)

COUNTED_AS(bytes, COPIED, void *, memcpy, (void *to, const void *from, size_t bytes),
           (to, from, bytes))
COUNTED_AS(bytes, COPIED, void *, memmove, (void *to, const void *from, size_t bytes),
           (to, from, bytes))

/* A write of eight bytes wakes another thread of the runtime, which depends on the load. */
COUNTED_AS(bytes != sizeof(uint64_t), WRITES, ssize_t, write,
           (int file, const void *from, size_t bytes), (file, from, bytes))
COUNTED(READS, ssize_t, read, (int file, void *to, size_t bytes), (file, to, bytes))
COUNTED(READS, ssize_t, recv, (int file, void *to, size_t bytes, int flags),
        (file, to, bytes, flags))
COUNTED(READS, ssize_t, pread64, (int file, void *to, size_t bytes, off64_t at),
        (file, to, bytes, at))
COUNTED(WRITES, ssize_t, send, (int file, const void *from, size_t bytes, int flags),
        (file, from, bytes, flags))
COUNTED(WRITES, ssize_t, writev, (int file, const struct iovec *from, int number),
        (file, from, number))
COUNTED(WRITES, ssize_t, pwrite64, (int file, const void *from, size_t bytes, off64_t at),
        (file, from, bytes, at))
