/* Writes down, in one order, what a process does to the files below one folder, and what it says.
 *
 * Preloaded into the process. After recorder_begin() every call that changes a file, a name or what
 * is durable becomes a record of the log, with its bytes; so does every write to the witness's
 * pipe, which is why it is known for each moment what had been promised by then. Files and folders
 * get numbers of their own, because the kernel uses an inode's number again.
 *
 * A call and its record are one step under a lock, so that the order of records is the order of
 * effects. Only syncs are not: they would keep other threads from writing meanwhile. A sync is
 * logged when it has returned, with the number of records that there were when it was called:
 * what came before that is durable, what came later may not be. A write that syncs makes what it
 * wrote durable and promises nothing of the rest of the file, so its sync has a length.
 *
 * A call that the model knows nothing of is logged as "strange"; the reader refuses such a log.
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum operation {
    CREATE = 1, MAKE_FOLDER, LINK, UNLINK, REMOVE_FOLDER, RENAME,
    WRITE, TRUNCATE, SYNC, SAID, STRANGE
};

struct record {
    uint32_t operation, began, file, folder, second_folder;
    uint32_t name_bytes, second_name_bytes, data_bytes;
    int64_t offset, length;
    uint64_t inode;
};

struct known {
    dev_t device;
    ino_t inode;
};

#define MOST_KNOWN 65536
#define LONGEST_PATH 4096

static struct known known[MOST_KNOWN]; /* the index is the number; 0 is nothing, 1 the root */
static uint32_t known_count = 1;
static uint32_t record_count;
static int recording, log_descriptor, witness_descriptor;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name, type, ...) \
    static type (*real_##name)(__VA_ARGS__); \
    if (!real_##name) \
        real_##name = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

/* The log */

static void put(struct record record, const char *name, const char *second_name, const void *data)
{
    int saved = errno;
    record.name_bytes = name ? strlen(name) : 0;
    record.second_name_bytes = second_name ? strlen(second_name) : 0;
    struct iovec parts[4] = {
        {&record, sizeof record},
        {(void *)name, record.name_bytes},
        {(void *)second_name, record.second_name_bytes},
        {(void *)data, record.data_bytes},
    };
    size_t whole = 0;
    for (int i = 0; i < 4; i++)
        whole += parts[i].iov_len;
    if (syscall(SYS_writev, log_descriptor, parts, 4) != (long)whole)
        abort(); /* a log with holes would prove nothing */
    record_count++;
    errno = saved;
}

static void strange(const char *what)
{
    put((struct record){.operation = STRANGE, .data_bytes = strlen(what)}, NULL, NULL, what);
}

/* Which files are ours */

static uint32_t number_of(const struct stat *status)
{
    for (uint32_t i = known_count - 1; i > 0; i--) /* from the end: inodes are used again */
        if (known[i].inode == status->st_ino && known[i].device == status->st_dev)
            return i;
    return 0;
}

static uint32_t new_number(const struct stat *status)
{
    if (known_count == MOST_KNOWN)
        abort();
    known[known_count] = (struct known){status->st_dev, status->st_ino};
    return known_count++;
}

static uint32_t number_of_open(int descriptor, struct stat *status)
{
    int saved = errno;
    uint32_t number = fstat(descriptor, status) == 0 ? number_of(status) : 0;
    errno = saved;
    return number;
}

struct place {
    uint32_t folder; /* 0 if it is none of ours */
    char name[LONGEST_PATH];
};

static struct place place_of(int at, const char *path)
{
    struct place place = {0};
    struct stat status;
    char folder[LONGEST_PATH];
    int saved = errno;
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (end >= LONGEST_PATH)
        return place;
    memcpy(place.name, path + start, end - start);
    memcpy(folder, path, start);
    folder[start] = 0;
    if (fstatat(at, start ? folder : ".", &status, 0) == 0)
        place.folder = number_of(&status);
    errno = saved;
    return place;
}

/* Beginning and end of a recorded call. Without a recording nothing is locked. */

static int enter(void)
{
    if (!recording)
        return 0;
    pthread_mutex_lock(&lock);
    return 1;
}

static void leave(int entered)
{
    if (entered)
        pthread_mutex_unlock(&lock);
}

void recorder_begin(const char *root, int log, int witness)
{
    struct stat status;
    if (stat(root, &status) != 0)
        abort();
    new_number(&status);
    log_descriptor = log;
    witness_descriptor = witness;
    recording = 1;
}

/* Opening */

static void after_opening(int entered, int there, struct place *place, int descriptor, int flags,
                          off_t size)
{
    struct stat status;
    if (!entered || descriptor < 0 || !place->folder)
        return;
    if (flags & (O_SYNC | O_DSYNC) || (flags & O_TMPFILE) == O_TMPFILE)
        strange("open with a flag that syncs, or without a name");
    uint32_t number = number_of_open(descriptor, &status);
    if (!there) {
        number = new_number(&status);
        put((struct record){.operation = CREATE, .file = number, .folder = place->folder,
                            .inode = status.st_ino}, place->name, NULL, NULL);
    } else if (!number) {
        strange("open of a file that was there before");
    } else if (flags & O_TRUNC && size > 0) {
        put((struct record){.operation = TRUNCATE, .file = number}, NULL, NULL, NULL);
    }
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

#define OPENING(at, path, call) \
    struct place place = {0}; \
    struct stat before; \
    int there = 0, entered = enter(); \
    before.st_size = 0; \
    if (entered && (place = place_of(at, path)).folder) { \
        int saved = errno; \
        there = fstatat(at, path, &before, AT_SYMLINK_NOFOLLOW) == 0; \
        errno = saved; \
    } \
    int descriptor = call; \
    after_opening(entered, there, &place, descriptor, flags, before.st_size); \
    leave(entered); \
    return descriptor;

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(name, int, const char *, int, ...); \
        MODE_OF(flags) \
        OPENING(AT_FDCWD, path, real_##name(path, flags, mode)) \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int at, const char *path, int flags, ...) \
    { \
        REAL(name, int, int, const char *, int, ...); \
        MODE_OF(flags) \
        OPENING(at, path, real_##name(at, path, flags, mode)) \
    }
OPENAT(openat)
OPENAT(openat64)

#define CREAT(name) \
    int name(const char *path, mode_t mode) \
    { \
        REAL(name, int, const char *, mode_t); \
        int flags = O_CREAT | O_WRONLY | O_TRUNC; \
        OPENING(AT_FDCWD, path, real_##name(path, mode)) \
    }
CREAT(creat)
CREAT(creat64)

/* Writing */

static off_t write_offset(int descriptor, const struct stat *status)
{
    int appends = fcntl(descriptor, F_GETFL) & O_APPEND;
    return appends ? status->st_size : lseek(descriptor, 0, SEEK_CUR);
}

static void put_write(uint32_t number, off_t offset, const void *data, ssize_t size)
{
    if (size > 0)
        put((struct record){.operation = WRITE, .file = number, .offset = offset,
                            .data_bytes = size}, NULL, NULL, data);
}

static void put_writes(uint32_t number, off_t offset, const struct iovec *parts, int count,
                       ssize_t left)
{
    for (int i = 0; i < count && left > 0; i++) {
        ssize_t size = (ssize_t)parts[i].iov_len < left ? (ssize_t)parts[i].iov_len : left;
        put_write(number, offset, parts[i].iov_base, size);
        offset += size;
        left -= size;
    }
}

ssize_t write(int descriptor, const void *data, size_t size)
{
    REAL(write, ssize_t, int, const void *, size_t);
    struct stat status;
    off_t offset = 0;
    uint32_t number = 0;
    int entered = enter();
    if (entered && descriptor == witness_descriptor)
        put((struct record){.operation = SAID, .data_bytes = size}, NULL, NULL, data);
    else if (entered && (number = number_of_open(descriptor, &status)))
        offset = write_offset(descriptor, &status);
    ssize_t written = real_write(descriptor, data, size);
    if (number)
        put_write(number, offset, data, written);
    leave(entered);
    return written;
}

#define PWRITE(name) \
    ssize_t name(int descriptor, const void *data, size_t size, off_t offset) \
    { \
        REAL(name, ssize_t, int, const void *, size_t, off_t); \
        struct stat status; \
        int entered = enter(); \
        uint32_t number = entered ? number_of_open(descriptor, &status) : 0; \
        if (number && fcntl(descriptor, F_GETFL) & O_APPEND) \
            offset = status.st_size; /* Linux appends all the same */ \
        ssize_t written = real_##name(descriptor, data, size, offset); \
        if (number) \
            put_write(number, offset, data, written); \
        leave(entered); \
        return written; \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    REAL(writev, ssize_t, int, const struct iovec *, int);
    struct stat status;
    off_t offset = 0;
    int entered = enter();
    uint32_t number = entered ? number_of_open(descriptor, &status) : 0;
    if (number)
        offset = write_offset(descriptor, &status);
    ssize_t written = real_writev(descriptor, parts, count);
    if (number)
        put_writes(number, offset, parts, count, written);
    leave(entered);
    return written;
}

#define FTRUNCATE(name) \
    int name(int descriptor, off_t size) \
    { \
        REAL(name, int, int, off_t); \
        struct stat status; \
        int entered = enter(); \
        uint32_t number = entered ? number_of_open(descriptor, &status) : 0; \
        int done = real_##name(descriptor, size); \
        if (number && done == 0) /* to the same size it only gives a reserve back */ \
            if (size != status.st_size) \
                put((struct record){.operation = TRUNCATE, .file = number, .offset = size}, NULL, \
                    NULL, NULL); \
        leave(entered); \
        return done; \
    }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

/* Syncing: not under the lock, see above. */

static void put_sync(uint32_t number, uint32_t began, off_t offset, ssize_t length)
{
    int entered = enter();
    put((struct record){.operation = SYNC, .file = number, .began = began, .offset = offset,
                        .length = length}, NULL, NULL, NULL);
    leave(entered);
}

#define SYNCING(name) \
    int name(int descriptor) \
    { \
        REAL(name, int, int); \
        struct stat status; \
        int entered = enter(); \
        uint32_t number = entered ? number_of_open(descriptor, &status) : 0; \
        uint32_t began = record_count; \
        leave(entered); \
        int done = real_##name(descriptor); \
        if (number && done == 0) \
            put_sync(number, began, 0, 0); \
        return done; \
    }
SYNCING(fsync)
SYNCING(fdatasync)

/* What the kernel makes of a write with flags that sync: a write, then a sync of what was written,
 * whose failure is the whole call's. */

#define PWRITEV2(name) \
    ssize_t name(int descriptor, const struct iovec *parts, int count, off_t offset, int flags) \
    { \
        REAL(name, ssize_t, int, const struct iovec *, int, off_t, int); \
        REAL(fdatasync, int, int); \
        struct stat status; \
        int entered = enter(), syncing = flags & (RWF_DSYNC | RWF_SYNC); \
        uint32_t number = entered ? number_of_open(descriptor, &status) : 0; \
        if (number && flags & ~syncing) \
            strange(#name " with flags"); \
        if (number && fcntl(descriptor, F_GETFL) & O_APPEND) \
            offset = status.st_size; \
        ssize_t written = real_##name(descriptor, parts, count, offset, flags & ~syncing); \
        if (number) \
            put_writes(number, offset, parts, count, written); \
        uint32_t began = record_count; \
        leave(entered); \
        if (syncing && written > 0) { \
            if (real_fdatasync(descriptor) != 0) \
                return -1; \
            if (number) \
                put_sync(number, began, offset, written); \
        } \
        return written; \
    }
PWRITEV2(pwritev2)
PWRITEV2(pwritev64v2)

/* Names */

static int renamed(int entered, int done, struct place *from, struct place *to, unsigned flags)
{
    if (entered && done == 0 && (from->folder || to->folder)) {
        if (!from->folder || !to->folder || flags & ~1u) /* RENAME_NOREPLACE is 1 */
            strange("rename into or out of the folder, or an exchange");
        put((struct record){.operation = RENAME, .folder = from->folder,
                            .second_folder = to->folder}, from->name, to->name, NULL);
    }
    leave(entered);
    return done;
}

#define RENAMING(at, path, second_at, second_path, call, flags) \
    struct place from = {0}, to = {0}; \
    int entered = enter(); \
    if (entered) { \
        from = place_of(at, path); \
        to = place_of(second_at, second_path); \
    } \
    int done = call; \
    return renamed(entered, done, &from, &to, flags);

int rename(const char *path, const char *second_path)
{
    REAL(rename, int, const char *, const char *);
    RENAMING(AT_FDCWD, path, AT_FDCWD, second_path, real_rename(path, second_path), 0)
}

int renameat(int at, const char *path, int second_at, const char *second_path)
{
    REAL(renameat, int, int, const char *, int, const char *);
    RENAMING(at, path, second_at, second_path, real_renameat(at, path, second_at, second_path), 0)
}

int renameat2(int at, const char *path, int second_at, const char *second_path, unsigned flags)
{
    REAL(renameat2, int, int, const char *, int, const char *, unsigned);
    RENAMING(at, path, second_at, second_path,
             real_renameat2(at, path, second_at, second_path, flags), flags)
}

static int linked(int entered, int done, int at, const char *path, struct place *to)
{
    struct stat status;
    if (entered && done == 0 && to->folder) {
        uint32_t number = fstatat(at, path, &status, AT_SYMLINK_NOFOLLOW) == 0
            ? number_of(&status) : 0;
        if (!number)
            strange("link to a file outside the folder");
        put((struct record){.operation = LINK, .file = number, .folder = to->folder}, to->name,
            NULL, NULL);
    }
    leave(entered);
    return done;
}

int link(const char *path, const char *second_path)
{
    REAL(link, int, const char *, const char *);
    int entered = enter();
    struct place to = {0};
    if (entered)
        to = place_of(AT_FDCWD, second_path);
    return linked(entered, real_link(path, second_path), AT_FDCWD, path, &to);
}

int linkat(int at, const char *path, int second_at, const char *second_path, int flags)
{
    REAL(linkat, int, int, const char *, int, const char *, int);
    int entered = enter();
    struct place to = {0};
    if (entered)
        to = place_of(second_at, second_path);
    return linked(entered, real_linkat(at, path, second_at, second_path, flags), at, path, &to);
}

static int removed(int entered, int done, enum operation operation, struct place *place)
{
    if (entered && done == 0 && place->folder)
        put((struct record){.operation = operation, .folder = place->folder}, place->name, NULL,
            NULL);
    leave(entered);
    return done;
}

int unlink(const char *path)
{
    REAL(unlink, int, const char *);
    int entered = enter();
    struct place place = {0};
    if (entered)
        place = place_of(AT_FDCWD, path);
    return removed(entered, real_unlink(path), UNLINK, &place);
}

int unlinkat(int at, const char *path, int flags)
{
    REAL(unlinkat, int, int, const char *, int);
    int entered = enter();
    struct place place = {0};
    if (entered)
        place = place_of(at, path);
    enum operation operation = flags & AT_REMOVEDIR ? REMOVE_FOLDER : UNLINK;
    return removed(entered, real_unlinkat(at, path, flags), operation, &place);
}

int rmdir(const char *path)
{
    REAL(rmdir, int, const char *);
    int entered = enter();
    struct place place = {0};
    if (entered)
        place = place_of(AT_FDCWD, path);
    return removed(entered, real_rmdir(path), REMOVE_FOLDER, &place);
}

static int made(int entered, int done, int at, const char *path, struct place *place)
{
    struct stat status;
    if (entered && done == 0 && place->folder && fstatat(at, path, &status, 0) == 0)
        put((struct record){.operation = MAKE_FOLDER, .file = new_number(&status),
                            .folder = place->folder, .inode = status.st_ino}, place->name, NULL,
            NULL);
    leave(entered);
    return done;
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir, int, const char *, mode_t);
    int entered = enter();
    struct place place = {0};
    if (entered)
        place = place_of(AT_FDCWD, path);
    return made(entered, real_mkdir(path, mode), AT_FDCWD, path, &place);
}

int mkdirat(int at, const char *path, mode_t mode)
{
    REAL(mkdirat, int, int, const char *, mode_t);
    int entered = enter();
    struct place place = {0};
    if (entered)
        place = place_of(at, path);
    return made(entered, real_mkdirat(at, path, mode), at, path, &place);
}

/* What the model does not know. Reserving blocks beyond the end changes no byte and no size. */

static void note_strange(int descriptor, const char *what)
{
    struct stat status;
    int entered = enter();
    if (entered && number_of_open(descriptor, &status))
        strange(what);
    leave(entered);
}

#define FALLOCATE(name) \
    int name(int descriptor, int mode, off_t offset, off_t size) \
    { \
        REAL(name, int, int, int, off_t, off_t); \
        if (mode != 1) /* FALLOC_FL_KEEP_SIZE */ \
            note_strange(descriptor, "fallocate that changes a file"); \
        return real_##name(descriptor, mode, offset, size); \
    }
FALLOCATE(fallocate)
FALLOCATE(fallocate64)

#define POSIX_FALLOCATE(name) \
    int name(int descriptor, off_t offset, off_t size) \
    { \
        REAL(name, int, int, off_t, off_t); \
        note_strange(descriptor, #name); \
        return real_##name(descriptor, offset, size); \
    }
POSIX_FALLOCATE(posix_fallocate)
POSIX_FALLOCATE(posix_fallocate64)

#define PWRITEV(name) \
    ssize_t name(int descriptor, const struct iovec *parts, int count, off_t offset) \
    { \
        REAL(name, ssize_t, int, const struct iovec *, int, off_t); \
        note_strange(descriptor, #name); \
        return real_##name(descriptor, parts, count, offset); \
    }
PWRITEV(pwritev)
PWRITEV(pwritev64)

#define SENDFILE(name) \
    ssize_t name(int to, int from, off_t *offset, size_t size) \
    { \
        REAL(name, ssize_t, int, int, off_t *, size_t); \
        note_strange(to, #name); \
        return real_##name(to, from, offset, size); \
    }
SENDFILE(sendfile)
SENDFILE(sendfile64)

ssize_t copy_file_range(int from, off_t *offset, int to, off_t *second_offset, size_t size,
                        unsigned flags)
{
    REAL(copy_file_range, ssize_t, int, off_t *, int, off_t *, size_t, unsigned);
    note_strange(to, "copy_file_range");
    return real_copy_file_range(from, offset, to, second_offset, size, flags);
}

#define MMAP(name) \
    void *name(void *address, size_t size, int protection, int flags, int descriptor, off_t offset) \
    { \
        REAL(name, void *, void *, size_t, int, int, int, off_t); \
        if (recording && descriptor >= 0 && flags & MAP_SHARED && protection & PROT_WRITE) \
            note_strange(descriptor, "a shared mapping that can be written"); \
        return real_##name(address, size, protection, flags, descriptor, offset); \
    }
MMAP(mmap)
MMAP(mmap64)

static void note_strange_path(int at, const char *path, const char *what)
{
    int entered = enter();
    if (entered && place_of(at, path).folder)
        strange(what);
    leave(entered);
}

#define TRUNCATE_PATH(name) \
    int name(const char *path, off_t size) \
    { \
        REAL(name, int, const char *, off_t); \
        note_strange_path(AT_FDCWD, path, #name); \
        return real_##name(path, size); \
    }
TRUNCATE_PATH(truncate)
TRUNCATE_PATH(truncate64)

int symlink(const char *target, const char *path)
{
    REAL(symlink, int, const char *, const char *);
    note_strange_path(AT_FDCWD, path, "symlink");
    return real_symlink(target, path);
}

int symlinkat(const char *target, int at, const char *path)
{
    REAL(symlinkat, int, const char *, int, const char *);
    note_strange_path(at, path, "symlinkat");
    return real_symlinkat(target, at, path);
}
