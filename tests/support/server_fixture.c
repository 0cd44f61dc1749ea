/* tests/support/server_fixture.c: see server_fixture.h. */
#define _XOPEN_SOURCE 700 /* nftw */
#include "tests/support/server_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PORT_FIRST = 20000, PORT_COUNT = 12000, START_TRIES = 5, ACCEPT_TRIES = 500 };

static _Noreturn void give_up(const char *what)
{
    (void)fprintf(stderr, "server_fixture: %s\n", what);
    abort();
}

void server_fixture_sleep_ms(int64_t ms)
{
    const struct timespec wait = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    (void)nanosleep(&wait, NULL);
}

static struct sockaddr_in address_of(int port)
{
    return (struct sockaddr_in){ .sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)port),
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static bool port_is_free(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = address_of(port);
    const bool is_free =
        fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0) (void)close(fd);
    return is_free;
}

static bool port_accepts(int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct sockaddr_in address = address_of(port);
    const bool accepts =
        fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0) (void)close(fd);
    return accepts;
}

/* Spread by process, so that tests that run side by side seldom meet. */
static int find_port(void)
{
    static int tried;
    for (int i = 0; i < PORT_COUNT; i++) {
        const int port = PORT_FIRST + (getpid() * 37 + tried++ * 11) % PORT_COUNT;
        if (port_is_free(port)) return port;
    }
    give_up("no free port");
}

void server_fixture_init(struct server_fixture *server)
{
    *server = (struct server_fixture){ .folder = "/tmp/oncepay-test-XXXXXX" };
    if (mkdtemp(server->folder) == NULL) give_up("no folder under /tmp");
    server->port = find_port();
}

void server_fixture_argument(struct server_fixture *server, const char *format, ...)
{
    if (server->argument_count + 1 == SERVER_FIXTURE_ARGUMENTS_MAX) give_up("too many arguments");
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(server->arguments[server->argument_count++], SERVER_FIXTURE_TEXT_SIZE, format,
                    arguments);
    va_end(arguments);
}

void server_fixture_write(const struct server_fixture *server, const char *name, const char *text)
{
    char path[SERVER_FIXTURE_TEXT_SIZE];
    (void)snprintf(path, sizeof path, "%s/%s", server->folder, name);
    FILE *file = fopen(path, "we");
    if (file == NULL || fputs(text, file) == EOF || fclose(file) != 0)
        give_up("cannot write a file");
}

static _Noreturn void become_server(const struct server_fixture *server)
{
    char log[SERVER_FIXTURE_TEXT_SIZE];
    char *words[SERVER_FIXTURE_ARGUMENTS_MAX + 1] = { 0 };
    (void)snprintf(log, sizeof log, "%s/log", server->folder);
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(out, STDERR_FILENO);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < server->argument_count; i++) {
        words[i] = memory_copy_text(server->arguments[i]);
    }
    (void)execvp(server->arguments[0], words);
    _exit(127);
}

/* False if it ended before it accepted: somebody's connection may hold the port for a moment. */
static bool start_once(struct server_fixture *server)
{
    server->pid = fork();
    if (server->pid < 0) give_up("fork failed");
    if (server->pid == 0) become_server(server);
    for (int i = 0; i < ACCEPT_TRIES; i++) {
        if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
            server->pid = 0;
            return false;
        }
        if (port_accepts(server->port)) return true;
        server_fixture_sleep_ms(20);
    }
    give_up("the server does not accept connections");
}

void server_fixture_start(struct server_fixture *server)
{
    for (int i = 0; i < START_TRIES; i++) {
        if (start_once(server)) return;
        server_fixture_sleep_ms(200);
    }
    (void)fprintf(stderr, "server_fixture: %s does not start, see %s/log\n", server->arguments[0],
                  server->folder);
    abort();
}

static void end(struct server_fixture *server, int number)
{
    if (server->pid == 0) return;
    (void)kill(server->pid, number);
    (void)waitpid(server->pid, NULL, 0);
    server->pid = 0;
    server->is_frozen = false;
}

void server_fixture_kill(struct server_fixture *server)
{
    end(server, SIGKILL);
}

void server_fixture_stop(struct server_fixture *server)
{
    end(server, SIGTERM);
}

void server_fixture_freeze(struct server_fixture *server)
{
    (void)kill(server->pid, SIGSTOP);
    (void)waitpid(server->pid, NULL, WUNTRACED);
    server->is_frozen = true;
}

void server_fixture_thaw(struct server_fixture *server)
{
    if (!server->is_frozen) return;
    (void)kill(server->pid, SIGCONT);
    server->is_frozen = false;
}

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *place)
{
    (void)about;
    (void)kind;
    (void)place;
    (void)remove(path);
    return 0;
}

void server_fixture_remove(const struct server_fixture *server, const char *name)
{
    char path[SERVER_FIXTURE_TEXT_SIZE];
    (void)snprintf(path, sizeof path, "%s/%s", server->folder, name);
    if (nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) give_up("cannot remove a file");
}

void server_fixture_finish(struct server_fixture *server)
{
    server_fixture_kill(server);
    if (server->folder[0] != '\0')
        (void)nftw(server->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    *server = (struct server_fixture){ 0 };
}
