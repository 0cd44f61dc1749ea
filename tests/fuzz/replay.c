/*
 * tests/fuzz/replay.c: a fuzz target without a fuzzer. Each file of the folders named is given to
 * it whole, then cut off behind every byte: what is half here is what a broken connection leaves.
 * Inputs lie in memory of exactly their size, so that a sanitizer sees the first byte too many.
 */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

enum { INPUT_BYTES_MAX = 1024 * 1024, CUT_BYTES_MAX = 8192 };

static void give(const uint8_t *data, size_t size)
{
    uint8_t *exact = memory_resize(NULL, size == 0 ? 1 : size);
    if (size > 0) memcpy(exact, data, size);
    (void)LLVMFuzzerTestOneInput(size == 0 ? exact + 1 : exact, size);
    free(exact);
}

static void replay_file(const char *path)
{
    static uint8_t input[INPUT_BYTES_MAX];
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        (void)fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        exit(3);
    }
    const size_t length = fread(input, 1, sizeof input, file);
    (void)fclose(file);
    (void)printf("%s\n", path);
    (void)fflush(stdout); /* the last line names the input that it died of */
    give(input, length);
    for (size_t cut = 0; cut < length && cut < CUT_BYTES_MAX; cut++) give(input, cut);
}

static size_t replay_folder(const char *path)
{
    struct dirent **entries;
    const int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        (void)fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
        exit(3);
    }
    size_t replayed = 0;
    for (int i = 0; i < count; i++) {
        char file[4096];
        struct stat about;
        (void)snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
        if (stat(file, &about) == 0 && S_ISREG(about.st_mode)) {
            replay_file(file);
            replayed++;
        }
        free(entries[i]);
    }
    free(entries);
    return replayed;
}

int main(int argc, char **argv)
{
    size_t replayed = 0;
    for (int i = 1; i < argc; i++) replayed += replay_folder(argv[i]);
    if (replayed == 0) {
        (void)fprintf(stderr, "replay: no input; usage: replay FOLDER...\n");
        return 2;
    }
    (void)printf("%zu inputs\n", replayed);
    return 0;
}
