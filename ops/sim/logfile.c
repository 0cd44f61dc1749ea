/* ops/sim/logfile.c: see logfile.h. */
#include "ops/sim/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(char error[LOGFILE_ERROR_SIZE], const char *path, const char *what)
{
    (void)snprintf(error, LOGFILE_ERROR_SIZE, "%s: %s", path, what);
    return false;
}

/* Reads all whole lines; out_end is where the last of them ends. */
static bool read_lines(FILE *file, const char *path, logfile_reader reader, void *self,
                       off_t *out_end, char error[LOGFILE_ERROR_SIZE])
{
    char *line = NULL;
    size_t capacity = 0;
    size_t number = 0;
    off_t end = 0;
    bool is_good = true;
    for (;;) {
        const ssize_t length = getline(&line, &capacity, file);
        if (length <= 0 || line[length - 1] != '\n') break; /* the end, or a torn last line */
        number++;
        const char *problem = reader(self, line, (size_t)length - 1);
        if (problem != NULL) {
            (void)snprintf(error, LOGFILE_ERROR_SIZE, "%s:%zu: %s", path, number, problem);
            is_good = false;
            break;
        }
        end += (off_t)length;
    }
    free(line);
    *out_end = end;
    return is_good;
}

static bool load(struct logfile *log, logfile_reader reader, void *self,
                 char error[LOGFILE_ERROR_SIZE])
{
    FILE *file = fopen(log->path, "r");
    if (file == NULL) return fail(error, log->path, strerror(errno));
    off_t end = 0;
    const bool is_good = read_lines(file, log->path, reader, self, &end, error);
    (void)fclose(file);
    if (!is_good) return false;
    if (ftruncate(log->fd, end) != 0) return fail(error, log->path, strerror(errno));
    return true;
}

bool logfile_open(struct logfile *log, const char *directory, const char *name,
                  logfile_reader reader, void *self, char error[LOGFILE_ERROR_SIZE])
{
    *log = (struct logfile){ .fd = -1 };
    if (mkdir(directory, 0700) != 0 && errno != EEXIST) {
        return fail(error, directory, strerror(errno));
    }
    struct textbuf path = { 0 };
    textbuf_format(&path, "%s/%s", directory, name);
    log->path = path.data;
    log->fd = open(log->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log->fd < 0) return fail(error, log->path, strerror(errno));
    if (flock(log->fd, LOCK_EX | LOCK_NB) != 0) {
        return fail(error, log->path, "in use by another simulator");
    }
    return load(log, reader, self, error);
}

void logfile_commit(struct logfile *log)
{
    const char *data = log->pending.data;
    size_t left = log->pending.length;
    while (left > 0) {
        const ssize_t written = write(log->fd, data, left);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            fprintf(stderr, "oncepay-psp-sim: %s: %s\n", log->path, strerror(errno));
            INVARIANT(written > 0);
        }
        data += written;
        left -= (size_t)written;
    }
    textbuf_clear(&log->pending);
}

void logfile_clear(struct logfile *log)
{
    textbuf_clear(&log->pending);
    INVARIANT(ftruncate(log->fd, 0) == 0);
}

void logfile_close(struct logfile *log)
{
    if (log->fd >= 0) (void)close(log->fd);
    free(log->path);
    textbuf_finish(&log->pending);
    *log = (struct logfile){ .fd = -1 };
}
