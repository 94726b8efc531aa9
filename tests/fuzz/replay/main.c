// Gives saved inputs to a fuzz target without libFuzzer: build/fuzz-replay/NAME FOLDER. The last name printed before a
// crash is the input's.
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static int replay(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return perror(path), 1;
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    uint8_t *bytes = malloc(n ? n : 1);               // exactly n bytes, so that a sanitizer sees the first one past the end
    int failed = fread(bytes, 1, n, f) != n;
    fclose(f);
    printf("%s\n", path);
    fflush(stdout);
    if (!failed) LLVMFuzzerTestOneInput(bytes, n);
    free(bytes);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0, count = 0;
    struct dirent **list;
    int n = argc == 2 ? scandir(argv[1], &list, NULL, alphasort) : -1;
    if (n < 0) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < n; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", argv[1], list[i]->d_name);
        if (list[i]->d_name[0] != '.') failed |= replay(path), count++;
        free(list[i]);
    }
    free(list);
    if (!count) fprintf(stderr, "%s: no inputs\n", argv[1]);
    return failed || !count;
}
