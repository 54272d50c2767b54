/* A fault injector: preloaded into a process, it stands between it and the C library.
 *
 * Calls that change something below a root folder are counted, by one counter for the whole
 * process, and noted in a log: number, name, what may go wrong with it, path. The call with a given
 * number (or the first one after it that the fault can happen to) meets the fault:
 *
 *   before        the process is killed before the call, as by kill -9
 *   after         … after the call
 *   torn          a part of the bytes is written, then the process is killed
 *   short         a part of the bytes is written, and the call says so
 *   eio, enospc   the call fails, once
 *   eio-stays, enospc-stays    it fails, and so does all that follows: a dead disk, a full disk
 *   eio-file, enospc-file      … all that follows on the same file
 *   lostsync      a sync fails, and what was not synced yet is zeros, as on a real disk; each
 *                 descriptor of the file that was open then is told of it, once, as Linux does
 *
 * Nothing happens before `faults_arm` is called. Descriptors are looked up in /proc when they are
 * used, so that duplicated and reused numbers need no bookkeeping.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum mode {
    NONE, BEFORE, AFTER, TORN, SHORT, EIO_ONCE, ENOSPC_ONCE, EIO_STAYS, ENOSPC_STAYS, EIO_FILE,
    ENOSPC_FILE, LOSTSYNC, MODES
};

static const char *const mode_names[MODES] = {
    "none", "before", "after", "torn", "short", "eio", "enospc", "eio-stays", "enospc-stays",
    "eio-file", "enospc-file", "lostsync",
};

/* What a call may meet besides death and EIO; noted in the log by these letters. */
#define BYTES 1  /* b: writes two bytes or more, so that a part of them can be written */
#define REFUSED 2 /* r: may be told that there is no room: some file systems copy on any write */
#define ROOM 4   /* m: takes more room, so that on a full disk it is told so again and again */
#define DIRTY 8  /* d: syncs a file that has bytes that were not synced yet */

struct call {
    const char *name;
    int descriptor; /* or -1 */
    int can;
    size_t size; /* of a write; less than what was asked for if the fault says so */
    char path[PATH_MAX];
    char other[PATH_MAX]; /* the second path of a rename or link, or empty */
    bool counted;
    bool dies_after;
};

static struct {
    atomic_bool armed;
    atomic_long count;
    atomic_bool struck;
    enum mode mode;
    long number;
    int part; /* of a write that is cut: so many thousandths of its bytes */
    int log;
    char root[PATH_MAX];
    size_t root_size;
    char file[PATH_MAX]; /* which is struck for good, by its name … */
    struct stat identity; /* … and by its inode, if it has one */
} faults = {.log = -1};

static void stop_loudly(const char *why) {
    dprintf(2, "faults.c: %s\n", why);
    abort();
}

static void *find(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) stop_loudly(name);
    return found;
}

/* The C library's own function, looked up at its first use. */
#define REAL(type, name, ...)                                        \
    static type (*real)(__VA_ARGS__);                                \
    if (real == NULL) real = (type(*)(__VA_ARGS__))find(#name)

/* ---- Bytes that were written and not synced ---------------------------------------------- */

struct range {
    dev_t device;
    ino_t inode;
    off_t start;
    size_t size;
};

static struct range *ranges;
static size_t ranges_used, ranges_room;
static pthread_mutex_t ranges_mutex = PTHREAD_MUTEX_INITIALIZER;

static bool of_file(const struct range *range, const struct stat *status) {
    return range->device == status->st_dev && range->inode == status->st_ino;
}

static void note_unsynced(int descriptor, off_t start, size_t size) {
    struct stat status;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return;
    if (fcntl(descriptor, F_GETFL) & O_APPEND) start = status.st_size - (off_t)size;
    pthread_mutex_lock(&ranges_mutex);
    if (ranges_used == ranges_room) {
        ranges_room = ranges_room ? 2 * ranges_room : 64;
        ranges = realloc(ranges, ranges_room * sizeof *ranges);
        if (ranges == NULL) stop_loudly("out of memory");
    }
    ranges[ranges_used++] = (struct range){status.st_dev, status.st_ino, start, size};
    pthread_mutex_unlock(&ranges_mutex);
}

static bool has_unsynced(int descriptor) {
    struct stat status;
    bool found = false;
    if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) return false;
    pthread_mutex_lock(&ranges_mutex);
    for (size_t i = 0; i < ranges_used; i++) {
        found = found || (of_file(&ranges[i], &status) && ranges[i].start < status.st_size);
    }
    pthread_mutex_unlock(&ranges_mutex);
    return found;
}

/* Forget what was not synced of a file; with `lose`, put zeros in its place. */
static void settle_unsynced(int descriptor, bool lose) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) return;
    REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
    int writable = -1;
    if (lose) {
        /* Opened anew: a descriptor that appends writes at the end, wherever it is told to. */
        char link[64];
        snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
        writable = (int)syscall(SYS_openat, AT_FDCWD, link, O_WRONLY | O_CLOEXEC);
        if (writable < 0) stop_loudly("cannot reach the file whose sync fails");
    }
    pthread_mutex_lock(&ranges_mutex);
    size_t kept = 0;
    for (size_t i = 0; i < ranges_used; i++) {
        struct range range = ranges[i];
        if (!of_file(&range, &status)) {
            ranges[kept++] = range;
            continue;
        }
        static const char zeros[4096];
        off_t end = range.start + (off_t)range.size;
        if (end > status.st_size) end = status.st_size; /* cut off meanwhile */
        while (lose && range.start < end) {
            size_t size = (size_t)(end - range.start);
            if (size > sizeof zeros) size = sizeof zeros;
            ssize_t done = real(writable, zeros, size, range.start);
            if (done <= 0) stop_loudly("cannot lose what was not synced");
            range.start += done;
        }
    }
    ranges_used = kept;
    pthread_mutex_unlock(&ranges_mutex);
    if (writable >= 0) syscall(SYS_close, writable);
}

/* ---- Which calls count -------------------------------------------------------------------- */

static bool below_root(const char *path) {
    return strncmp(path, faults.root, faults.root_size) == 0 &&
           (path[faults.root_size] == '/' || path[faults.root_size] == 0);
}

static void path_of_descriptor(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, PATH_MAX - 1);
    path[size < 0 ? 0 : size] = 0;
}

static void path_of_name(int folder, const char *name, char *path) {
    path[0] = 0;
    if (name == NULL) return;
    if (name[0] != '/') {
        if (folder == AT_FDCWD) {
            if (getcwd(path, PATH_MAX - 1) == NULL) path[0] = 0;
        } else {
            path_of_descriptor(folder, path);
        }
        strncat(path, "/", PATH_MAX - strlen(path) - 1);
    }
    strncat(path, name, PATH_MAX - strlen(path) - 1);
}

static void on_descriptor(struct call *call, const char *name, int descriptor, int can) {
    *call = (struct call){.name = name, .descriptor = descriptor, .can = can};
    if (!faults.armed) return;
    int before = errno;
    path_of_descriptor(descriptor, call->path);
    call->counted = below_root(call->path);
    errno = before;
}

static void on_name(struct call *call, const char *name, int folder, const char *path, int can) {
    *call = (struct call){.name = name, .descriptor = -1, .can = can};
    if (!faults.armed) return;
    int before = errno;
    path_of_name(folder, path, call->path);
    call->counted = below_root(call->path);
    errno = before;
}

static void on_two_names(struct call *call, const char *name, int folder, const char *path,
                         int other_folder, const char *other, int can) {
    on_name(call, name, folder, path, can);
    if (!faults.armed) return;
    int before = errno;
    path_of_name(other_folder, other, call->other);
    call->counted = call->counted || below_root(call->other);
    errno = before;
}

/* ---- The fault ---------------------------------------------------------------------------- */

static void note(const char *verb, long number, const struct call *call) {
    char line[2 * PATH_MAX + 128];
    char can[8], *end = can;
    if (call->can & BYTES) *end++ = 'b';
    if (call->can & REFUSED) *end++ = 'r';
    if (call->can & ROOM) *end++ = 'm';
    if (call->can & DIRTY) *end++ = 'd';
    if (end == can) *end++ = '-';
    *end = 0;
    const char *path = below_root(call->path) ? call->path : call->other;
    int size = snprintf(line, sizeof line, "%s\t%ld\t%s\t%s\t%s\n", verb, number, call->name, can,
                        path + faults.root_size);
    syscall(SYS_write, faults.log, line, size);
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

static bool can_happen_to(const struct call *call) {
    switch (faults.mode) {
    case NONE: return false;
    case TORN: case SHORT: return call->can & BYTES;
    case ENOSPC_ONCE: return call->can & REFUSED;
    case ENOSPC_STAYS: case ENOSPC_FILE: return call->can & ROOM;
    case LOSTSYNC: return call->can & DIRTY;
    default: return true;
    }
}

static bool status_of_call(const struct call *call, struct stat *status) {
    if (call->descriptor >= 0) return fstat(call->descriptor, status) == 0;
    return lstat(call->path, status) == 0;
}

static void remember_file(const struct call *call) {
    strcpy(faults.file, call->path);
    if (!status_of_call(call, &faults.identity)) faults.identity = (struct stat){0};
}

static bool is_struck_file(const struct call *call) {
    struct stat status;
    if (strcmp(call->path, faults.file) == 0 || strcmp(call->other, faults.file) == 0) return true;
    return faults.identity.st_ino != 0 && status_of_call(call, &status) &&
           status.st_ino == faults.identity.st_ino && status.st_dev == faults.identity.st_dev;
}

static bool stays_struck(const struct call *call) {
    switch (faults.mode) {
    case EIO_STAYS: case ENOSPC_STAYS: return true;
    case EIO_FILE: case ENOSPC_FILE: return is_struck_file(call);
    default: return false;
    }
}

/* Descriptors of the file whose pages were lost that have not been told of it yet. */
#define MOST_DESCRIPTORS 1024
static atomic_bool untold[MOST_DESCRIPTORS];

static bool is_lost_file(int descriptor) {
    struct stat status;
    return fstat(descriptor, &status) == 0 && status.st_ino == faults.identity.st_ino &&
           status.st_dev == faults.identity.st_dev;
}

static void lose_pages(const struct call *call) {
    remember_file(call);
    for (int other = 0; other < MOST_DESCRIPTORS; other++) {
        untold[other] = other != call->descriptor && is_lost_file(other);
    }
    settle_unsynced(call->descriptor, true);
}

static bool must_be_told(const struct call *call) {
    int descriptor = call->descriptor;
    if (faults.mode != LOSTSYNC || strstr(call->name, "sync") == NULL) return false;
    if (descriptor < 0 || descriptor >= MOST_DESCRIPTORS || !untold[descriptor]) return false;
    return is_lost_file(descriptor) && atomic_exchange(&untold[descriptor], false);
}

/* Count a call that is about to be made. Returns 0 if it may be made, else the error it meets. */
static int begin(struct call *call) {
    if (!call->counted) return 0;
    int before = errno;
    long number = ++faults.count;
    note("call", number, call);
    bool first = false;
    if (number >= faults.number && can_happen_to(call)) {
        bool expected = false;
        first = atomic_compare_exchange_strong(&faults.struck, &expected, true);
        if (first) {
            if (faults.mode == EIO_FILE || faults.mode == ENOSPC_FILE) remember_file(call);
            note("struck", number, call);
        }
    }
    if (!first && faults.struck && must_be_told(call)) {
        errno = before;
        return EIO;
    }
    bool struck = first || (faults.struck && can_happen_to(call) && stays_struck(call));
    errno = before;
    if (!struck) return 0;
    switch (faults.mode) {
    case BEFORE: die(); return 0;
    case AFTER: call->dies_after = true; return 0;
    case TORN: case SHORT:
        call->dies_after = faults.mode == TORN;
        size_t part = call->size * (size_t)faults.part / 1000;
        call->size = part < 1 ? 1 : part < call->size ? part : call->size - 1;
        return 0;
    case LOSTSYNC: lose_pages(call); return EIO;
    case EIO_ONCE: case EIO_STAYS: case EIO_FILE: return EIO;
    default: return ENOSPC;
    }
}

static void end(struct call *call) {
    if (call->dies_after) die();
}

static void end_write(struct call *call, ssize_t written, off_t start) {
    if (call->counted && written > 0) {
        int before = errno;
        note_unsynced(call->descriptor, start, (size_t)written);
        errno = before;
    }
    end(call);
}

#define FAIL_IF(error)      \
    do {                    \
        int why = (error);  \
        if (why != 0) {     \
            errno = why;    \
            return -1;      \
        }                   \
    } while (0)

/* ---- What the laboratory calls ------------------------------------------------------------ */

/* Begin to count calls below `root`, an absolute path without links, and note them in `log`, a
 * file elsewhere. Returns 0, or -1 if there is no such mode or the log cannot be written. */
int faults_arm(const char *root, const char *log, const char *mode, long number, int part) {
    int chosen = 0;
    while (chosen < MODES && strcmp(mode, mode_names[chosen]) != 0) chosen++;
    if (chosen == MODES || strlen(root) >= PATH_MAX) return -1;
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    faults.log = (int)syscall(SYS_openat, AT_FDCWD, log, flags, 0600);
    if (faults.log < 0) return -1;
    strcpy(faults.root, root);
    faults.root_size = strlen(root);
    faults.mode = (enum mode)chosen;
    faults.number = number;
    faults.part = part;
    faults.count = 0;
    faults.struck = false;
    faults.armed = true;
    return 0;
}

/* Stop counting, and let all further calls through. */
void faults_disarm(void) {
    faults.armed = false;
}

/* Return how many calls were counted. */
long faults_count(void) {
    return faults.count;
}

/* ---- Writes ------------------------------------------------------------------------------- */

#define WRITTEN(size) (REFUSED | ROOM | ((size) >= 2 ? BYTES : 0))

ssize_t write(int descriptor, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    struct call call;
    on_descriptor(&call, "write", descriptor, WRITTEN(size));
    call.size = size;
    FAIL_IF(begin(&call));
    ssize_t written = real(descriptor, data, call.size);
    off_t start = call.counted && written > 0 ? lseek(descriptor, 0, SEEK_CUR) - written : 0;
    end_write(&call, written, start);
    return written;
}

#define DEFINE_PWRITE(function)                                                      \
    ssize_t function(int descriptor, const void *data, size_t size, off_t offset) {  \
        REAL(ssize_t, function, int, const void *, size_t, off_t);                   \
        struct call call;                                                            \
        on_descriptor(&call, "pwrite", descriptor, WRITTEN(size));                   \
        call.size = size;                                                            \
        FAIL_IF(begin(&call));                                                       \
        ssize_t written = real(descriptor, data, call.size, offset);                 \
        end_write(&call, written, offset);                                           \
        return written;                                                              \
    }
DEFINE_PWRITE(pwrite)
DEFINE_PWRITE(pwrite64)

static size_t size_of_all(const struct iovec *pieces, int count) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += pieces[i].iov_len;
    return size;
}

/* Copy as many pieces as `size` bytes need; returns how many that are. */
static int cut_pieces(struct iovec *cut, const struct iovec *pieces, int count, size_t size) {
    int used = 0;
    while (used < count && size > 0) {
        cut[used] = pieces[used];
        if (cut[used].iov_len > size) cut[used].iov_len = size;
        size -= cut[used++].iov_len;
    }
    return used;
}

ssize_t writev(int descriptor, const struct iovec *pieces, int count) {
    REAL(ssize_t, writev, int, const struct iovec *, int);
    size_t size = count > 0 && count <= IOV_MAX ? size_of_all(pieces, count) : 0;
    struct call call;
    on_descriptor(&call, "writev", descriptor, WRITTEN(size));
    if (!call.counted) return real(descriptor, pieces, count);
    call.size = size;
    FAIL_IF(begin(&call));
    struct iovec cut[IOV_MAX];
    if (call.size < size) count = cut_pieces(cut, pieces, count, call.size);
    ssize_t written = real(descriptor, call.size < size ? cut : pieces, count);
    off_t start = written > 0 ? lseek(descriptor, 0, SEEK_CUR) - written : 0;
    end_write(&call, written, start);
    return written;
}

/* What the kernel makes of a write with flags that sync: a write, then a sync of what was written,
 * whose failure is the whole call's. So each half meets its own faults. */
static int sync_as_asked(int descriptor, ssize_t written, int flags) {
    return written > 0 && flags & (RWF_DSYNC | RWF_SYNC) ? fdatasync(descriptor) : 0;
}

/* Which of them takes flags as well differs by name; what is done is the same. */
#define DEFINE_PWRITEV(function, parameters, types, flags, ...)                              \
    ssize_t function parameters {                                                            \
        REAL(ssize_t, function, types);                                                      \
        size_t size = count > 0 && count <= IOV_MAX ? size_of_all(pieces, count) : 0;        \
        struct call call;                                                                    \
        on_descriptor(&call, "pwritev", descriptor, WRITTEN(size));                          \
        call.size = size;                                                                    \
        FAIL_IF(begin(&call));                                                               \
        struct iovec cut[IOV_MAX];                                                           \
        if (call.size < size) count = cut_pieces(cut, pieces, count, call.size);             \
        ssize_t written =                                                                    \
            real(descriptor, call.size < size ? cut : pieces, count, __VA_ARGS__);           \
        end_write(&call, written, offset);                                                   \
        return sync_as_asked(descriptor, written, flags) == 0 ? written : -1;                \
    }
#define TYPES(...) __VA_ARGS__
DEFINE_PWRITEV(pwritev, (int descriptor, const struct iovec *pieces, int count, off_t offset),
               TYPES(int, const struct iovec *, int, off_t), 0, offset)
DEFINE_PWRITEV(pwritev64, (int descriptor, const struct iovec *pieces, int count, off_t offset),
               TYPES(int, const struct iovec *, int, off_t), 0, offset)
DEFINE_PWRITEV(pwritev2,
               (int descriptor, const struct iovec *pieces, int count, off_t offset, int flags),
               TYPES(int, const struct iovec *, int, off_t, int), flags, offset,
               flags & ~(RWF_DSYNC | RWF_SYNC))
DEFINE_PWRITEV(pwritev64v2,
               (int descriptor, const struct iovec *pieces, int count, off_t offset, int flags),
               TYPES(int, const struct iovec *, int, off_t, int), flags, offset,
               flags & ~(RWF_DSYNC | RWF_SYNC))

/* ---- Syncs -------------------------------------------------------------------------------- */

#define DEFINE_SYNC(function)                                             \
    int function(int descriptor) {                                        \
        REAL(int, function, int);                                         \
        struct call call;                                                 \
        on_descriptor(&call, #function, descriptor, REFUSED);             \
        if (call.counted && has_unsynced(descriptor)) call.can |= DIRTY;  \
        FAIL_IF(begin(&call));                                            \
        int result = real(descriptor);                                    \
        if (call.counted && result == 0) settle_unsynced(descriptor, false); \
        end(&call);                                                       \
        return result;                                                    \
    }
DEFINE_SYNC(fsync)
DEFINE_SYNC(fdatasync)

/* ---- Opening for writing ------------------------------------------------------------------ */

static bool is_for_writing(int flags) {
    return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
}

static void on_opening(struct call *call, int folder, const char *path, int flags) {
    if (!is_for_writing(flags)) {
        *call = (struct call){.descriptor = -1};
        return;
    }
    on_name(call, "open", folder, path, 0);
    int before = errno;
    if (call->counted && (flags & O_CREAT) && access(call->path, F_OK) != 0) {
        call->name = "create";
        call->can = REFUSED | ROOM;
    }
    errno = before;
}

static mode_t rights(int flags, va_list rest) {
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE ? (mode_t)va_arg(rest, int) : 0;
}

#define DEFINE_OPEN(function)                                  \
    int function(const char *path, int flags, ...) {           \
        REAL(int, function, const char *, int, ...);           \
        va_list rest;                                          \
        va_start(rest, flags);                                 \
        mode_t mode = rights(flags, rest);                     \
        va_end(rest);                                          \
        struct call call;                                      \
        on_opening(&call, AT_FDCWD, path, flags);              \
        FAIL_IF(begin(&call));                                 \
        int descriptor = real(path, flags, mode);              \
        end(&call);                                            \
        return descriptor;                                     \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(function)                                \
    int function(int folder, const char *path, int flags, ...) { \
        REAL(int, function, int, const char *, int, ...);      \
        va_list rest;                                          \
        va_start(rest, flags);                                 \
        mode_t mode = rights(flags, rest);                     \
        va_end(rest);                                          \
        struct call call;                                      \
        on_opening(&call, folder, path, flags);                \
        FAIL_IF(begin(&call));                                 \
        int descriptor = real(folder, path, flags, mode);      \
        end(&call);                                            \
        return descriptor;                                     \
    }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

int creat(const char *path, mode_t mode) {
    return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

int creat64(const char *path, mode_t mode) {
    return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* ---- Everything else: a name, parameters, arguments, and what is looked at ---------------- */

#define DEFINE(function, parameters, types, arguments, look)     \
    int function parameters {                                    \
        REAL(int, function, types);                              \
        struct call call;                                        \
        look;                                                    \
        FAIL_IF(begin(&call));                                   \
        int result = real arguments;                             \
        end(&call);                                              \
        return result;                                           \
    }

DEFINE(ftruncate, (int descriptor, off_t size), TYPES(int, off_t), (descriptor, size),
       on_descriptor(&call, "ftruncate", descriptor, REFUSED))
DEFINE(ftruncate64, (int descriptor, off_t size), TYPES(int, off_t), (descriptor, size),
       on_descriptor(&call, "ftruncate", descriptor, REFUSED))
DEFINE(truncate, (const char *path, off_t size), TYPES(const char *, off_t), (path, size),
       on_name(&call, "truncate", AT_FDCWD, path, REFUSED))
DEFINE(truncate64, (const char *path, off_t size), TYPES(const char *, off_t), (path, size),
       on_name(&call, "truncate", AT_FDCWD, path, REFUSED))
DEFINE(fallocate, (int descriptor, int mode, off_t offset, off_t size),
       TYPES(int, int, off_t, off_t), (descriptor, mode, offset, size),
       on_descriptor(&call, "fallocate", descriptor, REFUSED | ROOM))
DEFINE(fallocate64, (int descriptor, int mode, off_t offset, off_t size),
       TYPES(int, int, off_t, off_t), (descriptor, mode, offset, size),
       on_descriptor(&call, "fallocate", descriptor, REFUSED | ROOM))
DEFINE(rename, (const char *from, const char *to), TYPES(const char *, const char *), (from, to),
       on_two_names(&call, "rename", AT_FDCWD, from, AT_FDCWD, to, REFUSED | ROOM))
DEFINE(renameat, (int from_folder, const char *from, int to_folder, const char *to),
       TYPES(int, const char *, int, const char *), (from_folder, from, to_folder, to),
       on_two_names(&call, "rename", from_folder, from, to_folder, to, REFUSED | ROOM))
DEFINE(renameat2,
       (int from_folder, const char *from, int to_folder, const char *to, unsigned flags),
       TYPES(int, const char *, int, const char *, unsigned),
       (from_folder, from, to_folder, to, flags),
       on_two_names(&call, "rename", from_folder, from, to_folder, to, REFUSED | ROOM))
DEFINE(link, (const char *from, const char *to), TYPES(const char *, const char *), (from, to),
       on_two_names(&call, "link", AT_FDCWD, from, AT_FDCWD, to, REFUSED | ROOM))
DEFINE(linkat, (int from_folder, const char *from, int to_folder, const char *to, int flags),
       TYPES(int, const char *, int, const char *, int), (from_folder, from, to_folder, to, flags),
       on_two_names(&call, "link", from_folder, from, to_folder, to, REFUSED | ROOM))
DEFINE(symlink, (const char *content, const char *path), TYPES(const char *, const char *),
       (content, path), on_name(&call, "symlink", AT_FDCWD, path, REFUSED | ROOM))
DEFINE(symlinkat, (const char *content, int folder, const char *path),
       TYPES(const char *, int, const char *), (content, folder, path),
       on_name(&call, "symlink", folder, path, REFUSED | ROOM))
DEFINE(unlink, (const char *path), TYPES(const char *), (path),
       on_name(&call, "unlink", AT_FDCWD, path, REFUSED))
DEFINE(unlinkat, (int folder, const char *path, int flags), TYPES(int, const char *, int),
       (folder, path, flags), on_name(&call, "unlink", folder, path, REFUSED))
DEFINE(mkdir, (const char *path, mode_t mode), TYPES(const char *, mode_t), (path, mode),
       on_name(&call, "mkdir", AT_FDCWD, path, REFUSED | ROOM))
DEFINE(mkdirat, (int folder, const char *path, mode_t mode), TYPES(int, const char *, mode_t),
       (folder, path, mode), on_name(&call, "mkdir", folder, path, REFUSED | ROOM))
DEFINE(rmdir, (const char *path), TYPES(const char *), (path),
       on_name(&call, "rmdir", AT_FDCWD, path, REFUSED))
DEFINE(utimensat, (int folder, const char *path, const struct timespec times[2], int flags),
       TYPES(int, const char *, const struct timespec *, int), (folder, path, times, flags),
       on_name(&call, "utimens", folder, path, REFUSED))
DEFINE(futimens, (int descriptor, const struct timespec times[2]),
       TYPES(int, const struct timespec *), (descriptor, times),
       on_descriptor(&call, "utimens", descriptor, REFUSED))
DEFINE(chmod, (const char *path, mode_t mode), TYPES(const char *, mode_t), (path, mode),
       on_name(&call, "chmod", AT_FDCWD, path, REFUSED))
DEFINE(fchmod, (int descriptor, mode_t mode), TYPES(int, mode_t), (descriptor, mode),
       on_descriptor(&call, "chmod", descriptor, REFUSED))
DEFINE(fchown, (int descriptor, uid_t user, gid_t group), TYPES(int, uid_t, gid_t),
       (descriptor, user, group), on_descriptor(&call, "chown", descriptor, REFUSED))

/* These give the error as their result and leave errno alone. */
#define DEFINE_POSIX_FALLOCATE(function)                                    \
    int function(int descriptor, off_t offset, off_t size) {                \
        REAL(int, function, int, off_t, off_t);                             \
        struct call call;                                                   \
        on_descriptor(&call, "fallocate", descriptor, REFUSED | ROOM);      \
        int why = begin(&call);                                             \
        if (why != 0) return why;                                           \
        int result = real(descriptor, offset, size);                        \
        end(&call);                                                         \
        return result;                                                      \
    }
DEFINE_POSIX_FALLOCATE(posix_fallocate)
DEFINE_POSIX_FALLOCATE(posix_fallocate64)

/* Copies within the kernel: the store makes none today; if it did, faults must not miss them. */
ssize_t copy_file_range(int from, off_t *from_offset, int to, off_t *to_offset, size_t size,
                        unsigned flags) {
    REAL(ssize_t, copy_file_range, int, off_t *, int, off_t *, size_t, unsigned);
    struct call call;
    on_descriptor(&call, "copy", to, WRITTEN(size));
    call.size = size;
    FAIL_IF(begin(&call));
    ssize_t copied = real(from, from_offset, to, to_offset, call.size, flags);
    end(&call);
    return copied;
}

#define DEFINE_SENDFILE(function)                                             \
    ssize_t function(int to, int from, off_t *offset, size_t size) {          \
        REAL(ssize_t, function, int, int, off_t *, size_t);                   \
        struct call call;                                                     \
        on_descriptor(&call, "copy", to, WRITTEN(size));                      \
        call.size = size;                                                     \
        FAIL_IF(begin(&call));                                                \
        ssize_t copied = real(to, from, offset, call.size);                   \
        end(&call);                                                           \
        return copied;                                                        \
    }
DEFINE_SENDFILE(sendfile)
DEFINE_SENDFILE(sendfile64)
