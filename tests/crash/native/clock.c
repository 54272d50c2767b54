/* A clock that jumps: preloaded into processes, it adds to the time of day what a file says.
 *
 * The environment variable HOLDFAST_CRASH_CLOCK names a file of eight bytes: how many seconds the
 * time of day is off. The file is mapped, so that a jump is seen by all threads and processes at
 * once. Clocks that count on steadily whatever the time of day is are left alone, as a jump of the
 * kernel's own clock would leave them, and so are sleeping and waiting, which go by those.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t *seconds_off;
static int (*true_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    true_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("HOLDFAST_CRASH_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) {
        return;
    }
    void *place = mmap(NULL, sizeof *seconds_off, PROT_READ, MAP_SHARED, file, 0);
    seconds_off = place == MAP_FAILED ? NULL : place;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (true_gettime == NULL) { /* somebody's constructor ran before ours */
        begin();
    }
    int done = true_gettime(clock, now);
    if (done == 0 && seconds_off && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += atomic_load(seconds_off);
    }
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec fine;
    (void)zone;
    int done = clock_gettime(CLOCK_REALTIME, &fine);
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / 1000;
    return done;
}

time_t time(time_t *place) {
    struct timespec fine;
    clock_gettime(CLOCK_REALTIME, &fine);
    if (place) {
        *place = fine.tv_sec;
    }
    return fine.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}
