/*
 * ops/sim/logfile.h: an append-only file of JSON lines. What belongs together goes out in one
 * write(), before anybody is answered: SIGKILL at any instant loses no committed line. There is
 * no fsync; a power cut may tear the end, which the next start drops.
 */
#ifndef ONCEPAY_SIM_LOGFILE_H
#define ONCEPAY_SIM_LOGFILE_H

#include "ops/sim/textbuf.h"

struct logfile {
    int fd;
    char *path;
    struct textbuf pending; /* lines of the commit in the making, each ending in \n */
};

/* NULL, or what is wrong with the line. */
typedef const char *(*logfile_reader)(void *self, const char *line, size_t length);

enum { LOGFILE_ERROR_SIZE = 512 };

/*
 * Opens or creates directory/name, locks it against a second simulator and hands every whole line
 * to reader. False: error says path, line and cause.
 */
bool logfile_open(struct logfile *log, const char *directory, const char *name,
                  logfile_reader reader, void *self, char error[LOGFILE_ERROR_SIZE]);
/* Writes what is pending. A disk that refuses ends the process: an answer would be a lie. */
void logfile_commit(struct logfile *log);
/* Empties the file and forgets what is pending. */
void logfile_clear(struct logfile *log);
void logfile_close(struct logfile *log);

#endif
