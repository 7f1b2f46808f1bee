/* A file layer for tests: it stands between a process and libc (LD_PRELOAD), sees every call that
 * changes a file under one folder, the home, and can make the call fail, stop or kill the process
 * there, tear a write, and remember what a power cut would leave.
 *
 *   FAULTS_HOME   the home, an absolute path without symbolic links; it exists
 *   FAULTS_PROGRAM  a file's name, may be absent: not the first process is meant, but who runs it
 *   FAULTS_DIR    a folder beside it:
 *     control     mapped; see `struct control`. The test writes a plan and raises `generation`
 *     calls       what was called, a line each (made by the test when it wants it)
 *     boot_id     stands in for the kernel's
 *     shadow/     with it, what would be on the disk if the power went now (made by the test):
 *                 inodes/N the contents as of the last sync of file N, dirs/N the names as of the
 *                 last sync of folder N, map which inode has which N; the home is number 1. It
 *                 outlives the process: what was written and not synced may be lost much later
 *
 * Strict as POSIX: a name is on the disk when its folder was synced, contents when their file was.
 * With a shadow the real disk isn't synced, only the shadow is. Stores into mapped memory aren't
 * seen, so files up to WHOLE_BYTES_MAX are copied whole at each sync.
 *
 * A plan is lines of words: [since CALLS GLOB] then CALLS GLOB before|after N TIMES ACTION [ERRNO].
 * CALLS is names joined by '|'; GLOB is matched with the path below the home, `/` being nothing
 * special. The rule acts at the N-th match, and at TIMES - 1 more (0: at all that follow).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PLAN_BYTES = 4064, WHOLE_BYTES_MAX = 256 << 10, BUCKETS = 4096, PATH_BYTES = 4096 };
enum when { BEFORE, AFTER };
enum action { NOTHING, KILL, FAIL, PAUSE, SHORT };

struct control {
    _Atomic uint64_t generation; /* raised by the test when `plan` is another */
    _Atomic uint64_t fired;      /* how often a rule has acted */
    _Atomic uint64_t seen;       /* the generation that the layer has read */
    char plan[PLAN_BYTES];
};

static struct {
    char since_calls[128], since_glob[256], calls[128], glob[256];
    enum when when;
    long n, times;
    enum action action;
    int error;
    int waiting; /* the `since` part has not been met */
    long matched;
} rule;

struct inode {
    struct inode *next;
    ino_t ino;
    uint64_t number;   /* its name in the shadow; inodes are reused, numbers aren't */
    off_t low, high;   /* written since the last sync */
    int whole, copied; /* the written part is unknown; it was synced once */
};

static char home[PATH_BYTES], folder[PATH_BYTES], boot[PATH_BYTES + 32];
static size_t home_length;
static struct control *control;
static int calls_fd = -1, shadow_fd = -1, map_fd = -1;
static struct inode *inodes[BUCKETS];
static uint64_t numbers;
static pthread_mutex_t rules_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t shadow_lock = PTHREAD_MUTEX_INITIALIZER;

/* libc's own function, looked up once. */
#define REAL(name)                                                  \
    ({                                                              \
        static void *found_;                                        \
        if (!found_) found_ = dlsym(RTLD_NEXT, #name);              \
        (__typeof__(&name))found_;                                  \
    })

static long raw_write(int fd, const char *data, size_t size) {
    return syscall(SYS_write, fd, data, size);
}

/* Paths */

/* The path below the home, NULL when it isn't there. `out` has PATH_BYTES. */
static const char *below(int at, const char *path, char *out) {
    if (!control || !path) return NULL;
    size_t length = 0;
    if (path[0] != '/') {
        char link[64];
        snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
        ssize_t got = readlink(link, out, PATH_BYTES - 2);
        if (got < 0) return NULL;
        length = (size_t)got;
        if (*path) out[length++] = '/';
    }
    if (length + strlen(path) >= PATH_BYTES) return NULL;
    strcpy(out + length, path);
    if (strncmp(out, home, home_length) || (out[home_length] && out[home_length] != '/')) return NULL;
    return out[home_length] ? out + home_length + 1 : ".";
}

static const char *below_fd(int fd, char *out) {
    if (!control || fd < 0) return NULL;
    const char *path = below(fd, "", out);
    if (!path) return NULL;
    size_t length = strlen(path);
    return length > 10 && !strcmp(path + length - 10, " (deleted)") ? NULL : path;
}

/* Rules */

static int named(const char *calls, const char *call) {
    size_t length = strlen(call);
    for (const char *at = calls; (at = strstr(at, call)); at += length)
        if ((at == calls || at[-1] == '|') && (!at[length] || at[length] == '|')) return 1;
    return 0;
}

static void read_plan(void) {
    static const char *actions[] = {"nothing", "kill", "errno", "pause", "short"};
    char text[PLAN_BYTES], when[16] = "", action[16] = "", error[16] = "";
    memcpy(text, control->plan, PLAN_BYTES);
    text[PLAN_BYTES - 1] = 0;
    memset(&rule, 0, sizeof rule);
    char *at = text;
    if (sscanf(at, "since %127s %255s", rule.since_calls, rule.since_glob) == 2) {
        rule.waiting = 1;
        at = strchr(at, '\n') ? strchr(at, '\n') + 1 : at + strlen(at);
    }
    sscanf(at, "%127s %255s %15s %ld %ld %15s %15s", rule.calls, rule.glob, when, &rule.n,
           &rule.times, action, error);
    rule.when = strcmp(when, "after") ? BEFORE : AFTER;
    rule.error = strcmp(error, "ENOSPC") ? EIO : ENOSPC;
    for (int i = 0; i < 5; i++)
        if (!strcmp(action, actions[i])) rule.action = (enum action)i;
}

static void note(const char *call, const char *path, long result, int error) {
    char line[PATH_BYTES + 128];
    if (calls_fd < 0) return;
    int size = snprintf(line, sizeof line, "%d %s %s %ld %d\n", (int)gettid(), call, path, result,
                        result < 0 ? error : 0);
    raw_write(calls_fd, line, (size_t)size);
}

static enum action matched(enum when when, const char *call, const char *path) {
    if (atomic_load(&control->generation) != atomic_load(&control->seen)) {
        atomic_store(&control->seen, atomic_load(&control->generation));
        read_plan();
    }
    if (rule.action == NOTHING) return NOTHING;
    if (rule.waiting) {
        if (named(rule.since_calls, call) && !fnmatch(rule.since_glob, path, 0)) rule.waiting = 0;
        return NOTHING;
    }
    if (when != rule.when || !named(rule.calls, call) || fnmatch(rule.glob, path, 0)) return NOTHING;
    long nth = ++rule.matched - rule.n;
    return nth >= 0 && (!rule.times || nth < rule.times) ? rule.action : NOTHING;
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* What the plan wants here. Kills and pauses at once; FAIL and SHORT are the caller's to do. */
static enum action meet(enum when when, const char *call, const char *path) {
    pthread_mutex_lock(&rules_lock);
    enum action action = matched(when, call, path);
    pthread_mutex_unlock(&rules_lock);
    if (action == NOTHING) return NOTHING;
    note(when == BEFORE ? "fired-before" : "fired-after", path, (long)action, 0);
    atomic_fetch_add(&control->fired, 1);
    if (action == KILL) die();
    if (action == PAUSE) syscall(SYS_kill, getpid(), SIGSTOP);
    return action;
}

/* The shadow */

static struct inode **slot(ino_t ino) {
    struct inode **at = &inodes[ino % BUCKETS];
    while (*at && (*at)->ino != ino) at = &(*at)->next;
    return at;
}

static void map_line(ino_t ino, uint64_t number) {
    char line[64];
    int size = snprintf(line, sizeof line, "%lu %lu\n", (unsigned long)ino, (unsigned long)number);
    raw_write(map_fd, line, (size_t)size);
}

static struct inode *inode_of(ino_t ino) {
    struct inode **at = slot(ino);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        (*at)->ino = ino;
        (*at)->number = ++numbers;
        map_line(ino, numbers);
    }
    return *at;
}

/* The last name of the file is gone: its inode may be another file's soon. */
static void retire(const struct stat *was) {
    if (was->st_nlink > 1 && !S_ISDIR(was->st_mode)) return;
    struct inode **at = slot(was->st_ino), *gone = *at;
    if (!gone) return;
    *at = gone->next;
    free(gone);
    map_line(was->st_ino, 0);
}

static void written(int fd, off_t at, size_t size) {
    struct stat now;
    if (shadow_fd < 0 || fstat(fd, &now)) return;
    pthread_mutex_lock(&shadow_lock);
    struct inode *inode = inode_of(now.st_ino);
    if (at < 0) inode->whole = 1;
    else if (inode->high == 0) inode->low = at, inode->high = at + (off_t)size;
    else {
        if (at < inode->low) inode->low = at;
        if (at + (off_t)size > inode->high) inode->high = at + (off_t)size;
    }
    pthread_mutex_unlock(&shadow_lock);
}

static void sync_file(int fd, const struct stat *now) {
    struct inode *inode = inode_of(now->st_ino);
    char name[64], path[64];
    snprintf(name, sizeof name, "inodes/%lu", (unsigned long)inode->number);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int from = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    int to = (int)syscall(SYS_openat, shadow_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (from < 0 || to < 0) abort();
    int whole = !inode->copied || inode->whole || now->st_size <= WHOLE_BYTES_MAX;
    off_t at = whole ? 0 : inode->low, end = whole || inode->high > now->st_size ? now->st_size : inode->high;
    static char block[1 << 16];
    while (at < end) {
        size_t want = end - at < (off_t)sizeof block ? (size_t)(end - at) : sizeof block;
        long got = syscall(SYS_pread64, from, block, want, at);
        if (got <= 0 || syscall(SYS_pwrite64, to, block, got, at) != got) break;
        at += got;
    }
    syscall(SYS_ftruncate, to, now->st_size);
    syscall(SYS_close, from);
    syscall(SYS_close, to);
    inode->copied = 1;
    inode->low = inode->high = 0;
    inode->whole = 0;
}

static void sync_names(const char *path, const struct stat *now) {
    struct inode *inode = inode_of(now->st_ino);
    char name[64], to[64], line[PATH_BYTES];
    snprintf(name, sizeof name, "dirs/%lu.new", (unsigned long)inode->number);
    snprintf(to, sizeof to, "dirs/%lu", (unsigned long)inode->number);
    int fd = (int)syscall(SYS_openat, shadow_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    DIR *dir = opendir(path);
    if (fd < 0 || !dir) abort();
    for (struct dirent *entry; (entry = readdir(dir));) {
        struct stat child;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (fstatat(dirfd(dir), entry->d_name, &child, AT_SYMLINK_NOFOLLOW)) continue;
        int size = snprintf(line, sizeof line, "%lu %c %s\n",
                            (unsigned long)inode_of(child.st_ino)->number,
                            S_ISDIR(child.st_mode) ? 'd' : 'f', entry->d_name);
        raw_write(fd, line, (size_t)size);
    }
    closedir(dir);
    syscall(SYS_close, fd);
    syscall(SYS_renameat, shadow_fd, name, shadow_fd, to);
}

static void shadow_sync(int fd) {
    struct stat now;
    char path[PATH_BYTES];
    if (fstat(fd, &now)) return;
    pthread_mutex_lock(&shadow_lock);
    if (S_ISDIR(now.st_mode)) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        sync_names(path, &now);
    } else {
        sync_file(fd, &now);
    }
    pthread_mutex_unlock(&shadow_lock);
}

/* The disk forgets what it could not write: a second sync that succeeds proves nothing. */
static void shadow_forget(int fd) {
    struct stat now;
    if (shadow_fd < 0 || fstat(fd, &now)) return;
    pthread_mutex_lock(&shadow_lock);
    struct inode *inode = inode_of(now.st_ino);
    inode->low = inode->high = 0;
    inode->whole = 0;
    inode->copied = 1;
    pthread_mutex_unlock(&shadow_lock);
}

static void take_stock(const char *path) {
    struct stat now;
    if (lstat(path, &now)) return;
    if (!S_ISDIR(now.st_mode)) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
        if (fd >= 0) sync_file(fd, &now), syscall(SYS_close, fd);
        return;
    }
    sync_names(path, &now);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char child[PATH_BYTES + 256];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        take_stock(child);
    }
    if (dir) closedir(dir);
}

/* Go on with the shadow of a process that was killed: what it didn't sync may still be lost. */
static int read_map(void) {
    unsigned long ino, number;
    int fd = (int)syscall(SYS_openat, shadow_fd, "map", O_RDONLY | O_CLOEXEC, 0);
    FILE *map = fd < 0 ? NULL : fdopen(fd, "r");
    while (map && fscanf(map, "%lu %lu", &ino, &number) == 2) {
        struct inode **at = slot(ino);
        if (!*at) *at = calloc(1, sizeof **at), (*at)->ino = ino;
        (*at)->number = number;
        (*at)->whole = 1;
        if (number > numbers) numbers = number;
    }
    if (map) fclose(map);
    for (int i = 0; i < BUCKETS; i++) /* what was retired has no number */
        for (struct inode **at = &inodes[i]; *at;) {
            struct inode *one = *at;
            if (one->number) at = &one->next;
            else *at = one->next, free(one);
        }
    return numbers > 0;
}

/* Whether this process is the one. Without a program it is the first process under this
 * environment: what it starts is left alone. */
static int meant(const char *owner) {
    const char *program = getenv("FAULTS_PROGRAM"), *first = getenv("FAULTS_OWNER");
    if (!program) return !first || !strcmp(first, owner);
    char self[PATH_BYTES];
    ssize_t size = readlink("/proc/self/exe", self, sizeof self - 1);
    if (size < 0) return 0;
    self[size] = 0;
    const char *name = strrchr(self, '/');
    return name && !strcmp(name + 1, program);
}

/* From here on this process is watched, if its variables say so. A process that was started without
 * them has the layer idle; its forks set them and call this. */
void begin(void) {
    const char *where = getenv("FAULTS_HOME"), *beside = getenv("FAULTS_DIR");
    char owner[32], path[PATH_BYTES + 32];
    snprintf(owner, sizeof owner, "%d", (int)getpid());
    if (!where || !beside || !meant(owner)) return;
    setenv("FAULTS_OWNER", owner, 1);
    snprintf(home, sizeof home, "%s", where);
    snprintf(folder, sizeof folder, "%s", beside);
    home_length = strlen(home);
    snprintf(boot, sizeof boot, "%s/boot_id", folder);
    snprintf(path, sizeof path, "%s/calls", folder);
    calls_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CLOEXEC, 0);
    snprintf(path, sizeof path, "%s/control", folder);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (mapped == MAP_FAILED) return;
    snprintf(path, sizeof path, "%s/shadow", folder);
    shadow_fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (shadow_fd >= 0) {
        map_fd = (int)syscall(SYS_openat, shadow_fd, "map", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        if (!read_map()) {
            struct stat now;
            if (stat(home, &now)) abort();
            inode_of(now.st_ino); /* number 1: the root */
            take_stock(home);
        }
    }
    control = mapped;
    atomic_store(&control->seen, 0);
}

__attribute__((constructor)) static void begin_at_start(void) { begin(); }

/* The calls. Each says what is changed, asks the plan, does it, asks again. */

#define CALL(type, name, call_name, path, act, done)                                 \
    do {                                                                             \
        enum action due = meet(BEFORE, call_name, path);                             \
        type result_;                                                                \
        if (due == FAIL) {                                                           \
            errno = rule.error;                                                      \
            result_ = -1;                                                            \
        } else {                                                                     \
            result_ = (type)(act);                                                   \
        }                                                                            \
        int error_ = errno;                                                          \
        if (result_ >= 0) { done; }                                                  \
        note(call_name, path, (long)result_, error_);                                \
        if (result_ >= 0 && meet(AFTER, call_name, path) == FAIL) {                  \
            error_ = rule.error;                                                     \
            result_ = -1;                                                            \
        }                                                                            \
        errno = error_;                                                              \
        return result_;                                                              \
    } while (0)

static int do_open(int (*opener)(int, const char *, int, ...), int at, const char *path, int flags, mode_t mode) {
    char room[PATH_BYTES];
    if (control && path && !strcmp(path, "/proc/sys/kernel/random/boot_id") && !access(boot, R_OK)) path = boot;
    const char *in = flags & O_CREAT ? below(at, path, room) : NULL;
    if (!in) return opener(at, path, flags, mode);
    CALL(int, open, "create", in, opener(at, path, flags, mode),
         if (flags & O_TRUNC) written(result_, -1, 0));
}

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

#define OPEN(name, opener, ...)                                    \
    {                                                              \
        va_list rest;                                              \
        va_start(rest, flags);                                     \
        mode_t mode = mode_of(flags, rest);                        \
        va_end(rest);                                              \
        return do_open(REAL(opener), __VA_ARGS__, flags, mode);    \
    }

int open(const char *path, int flags, ...) OPEN(open, openat, AT_FDCWD, path)
int open64(const char *path, int flags, ...) OPEN(open64, openat64, AT_FDCWD, path)
int openat(int at, const char *path, int flags, ...) OPEN(openat, openat, at, path)
int openat64(int at, const char *path, int flags, ...) OPEN(openat64, openat64, at, path)
int creat(const char *path, mode_t mode) {
    return do_open(REAL(openat), AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* A torn write: half of it, and no more of anything. */
static void tear(int fd, const struct iovec *parts, int count, off_t at) {
    size_t size = 0;
    for (int i = 0; i < count; i++) size += parts[i].iov_len;
    size_t left = size / 2;
    for (int i = 0; i < count && left; i++) {
        size_t some = parts[i].iov_len < left ? parts[i].iov_len : left;
        if (at < 0) raw_write(fd, parts[i].iov_base, some);
        else syscall(SYS_pwrite64, fd, parts[i].iov_base, some, at), at += (off_t)some;
        left -= some;
    }
    die();
}

#define WRITE(act, parts, count, at)                               \
    {                                                              \
        char room[PATH_BYTES];                                     \
        const char *in = below_fd(fd, room);                       \
        if (!in) return act;                                       \
        enum action due = meet(BEFORE, "write", in);               \
        if (due == SHORT) tear(fd, parts, count, at);              \
        if (due == FAIL) {                                         \
            note("write", in, -1, rule.error);                     \
            errno = rule.error;                                    \
            return -1;                                             \
        }                                                          \
        ssize_t done = act;                                        \
        int error = errno;                                         \
        if (done > 0) written(fd, at, (size_t)done);               \
        note("write", in, (long)done, error);                      \
        if (done >= 0) meet(AFTER, "write", in);                   \
        errno = error;                                             \
        return done;                                               \
    }
#define ONE (&(struct iovec){(void *)(uintptr_t)data, size})

ssize_t write(int fd, const void *data, size_t size) WRITE(REAL(write)(fd, data, size), ONE, 1, -1)
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) WRITE(REAL(pwrite)(fd, data, size, at), ONE, 1, at)
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) WRITE(REAL(pwrite64)(fd, data, size, at), ONE, 1, at)
ssize_t writev(int fd, const struct iovec *parts, int count) WRITE(REAL(writev)(fd, parts, count), parts, count, -1)
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at) WRITE(REAL(pwritev)(fd, parts, count, at), parts, count, at)
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) WRITE(REAL(pwritev64)(fd, parts, count, at), parts, count, at)
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t at, int flags) WRITE(REAL(pwritev2)(fd, parts, count, at, flags), parts, count, at)
ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t at, int flags) WRITE(REAL(pwritev64v2)(fd, parts, count, at, flags), parts, count, at)

#define SYNC(name)                                                                          \
    int name(int fd) {                                                                      \
        char room[PATH_BYTES];                                                              \
        const char *in = below_fd(fd, room);                                                \
        if (!in) return REAL(name)(fd);                                                     \
        if (meet(BEFORE, #name, in) == FAIL) {                                              \
            shadow_forget(fd);                                                              \
            note(#name, in, -1, rule.error);                                                \
            errno = rule.error;                                                             \
            return -1;                                                                      \
        }                                                                                   \
        int done = 0;                                                                       \
        if (shadow_fd >= 0) shadow_sync(fd);                                                \
        else done = REAL(name)(fd);                                                         \
        int error = errno;                                                                  \
        note(#name, in, done, error);                                                       \
        meet(AFTER, #name, in);                                                             \
        errno = error;                                                                      \
        return done;                                                                        \
    }
SYNC(fsync)
SYNC(fdatasync)

/* Neither durable nor a promise of it: let through. */
int ftruncate(int fd, off_t size) {
    char room[PATH_BYTES];
    const char *in = below_fd(fd, room);
    if (!in) return REAL(ftruncate)(fd, size);
    CALL(int, ftruncate, "truncate", in, REAL(ftruncate)(fd, size), written(fd, -1, 0));
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

int posix_fallocate(int fd, off_t at, off_t size) {
    char room[PATH_BYTES];
    const char *in = below_fd(fd, room);
    if (!in) return REAL(posix_fallocate)(fd, at, size);
    if (meet(BEFORE, "allocate", in) == FAIL) return rule.error;
    int error = REAL(posix_fallocate)(fd, at, size);
    if (!error) written(fd, -1, 0);
    note("allocate", in, error ? -1 : 0, error);
    meet(AFTER, "allocate", in);
    return error;
}
int posix_fallocate64(int fd, off64_t at, off64_t size) { return posix_fallocate(fd, at, size); }

/* Names. What a call replaces or removes is looked at before, and forgotten when it is gone. */
#define NAMES(call_name, at, path, act)                                                     \
    {                                                                                       \
        char room[PATH_BYTES];                                                              \
        const char *in = below(at, path, room);                                             \
        if (!in) return act;                                                                \
        enum action due = meet(BEFORE, call_name, in);                                      \
        if (due == FAIL) {                                                                  \
            note(call_name, in, -1, rule.error);                                            \
            errno = rule.error;                                                             \
            return -1;                                                                      \
        }                                                                                   \
        struct stat was;                                                                    \
        pthread_mutex_lock(&shadow_lock);                                                   \
        int there = shadow_fd >= 0 && !fstatat(at, path, &was, AT_SYMLINK_NOFOLLOW);        \
        int done = act;                                                                     \
        int error = errno;                                                                  \
        if (there && !done) retire(&was);                                                   \
        pthread_mutex_unlock(&shadow_lock);                                                 \
        note(call_name, in, done, error);                                                   \
        if (!done) meet(AFTER, call_name, in);                                              \
        errno = error;                                                                      \
        return done;                                                                        \
    }

int rename(const char *from, const char *to) NAMES("rename", AT_FDCWD, to, REAL(rename)(from, to))
int renameat(int a, const char *from, int b, const char *to) NAMES("rename", b, to, REAL(renameat)(a, from, b, to))
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) NAMES("rename", b, to, REAL(renameat2)(a, from, b, to, flags))
int link(const char *from, const char *to) NAMES("link", AT_FDCWD, to, REAL(link)(from, to))
int linkat(int a, const char *from, int b, const char *to, int flags) NAMES("link", b, to, REAL(linkat)(a, from, b, to, flags))
int unlink(const char *path) NAMES("unlink", AT_FDCWD, path, REAL(unlink)(path))
int unlinkat(int at, const char *path, int flags) NAMES("unlink", at, path, REAL(unlinkat)(at, path, flags))
int rmdir(const char *path) NAMES("rmdir", AT_FDCWD, path, REAL(rmdir)(path))
int mkdir(const char *path, mode_t mode) NAMES("mkdir", AT_FDCWD, path, REAL(mkdir)(path, mode))
int mkdirat(int at, const char *path, mode_t mode) NAMES("mkdir", at, path, REAL(mkdirat)(at, path, mode))
