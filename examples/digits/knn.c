// knn REAL SAMPLES: how often a 5-nearest-neighbor classifier of labeled real images agrees with the label of a sample, which
// is the class that was requested. Prints "agreement 261/320 81.6 %" and, with -v, one line per class.
//
// Distances are Euclidean, between pixels. If two classes have the same number of neighbors, the one with the smaller sum of
// ranks wins, then the lower class. Both inputs are streams of images (formats/images.md) of the same size, with labels.
#include "base/parallel.h"
#include "data/dataset.h"
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NEIGHBOURS = 5, CLASSES = 1000 };

typedef struct job { const kd_dataset *real, *sample; int64_t *guess; } job;

static int64_t distance(const uint8_t *a, const uint8_t *b, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const int d = a[i] - b[i];
        sum += d * d;
    }
    return sum;
}

static int64_t vote(const int64_t label[NEIGHBOURS])
{
    int64_t best = -1;
    int best_votes = 0, best_ranks = 0;
    for (int i = 0; i < NEIGHBOURS; i++) {
        int votes = 0, ranks = 0;
        for (int k = 0; k < NEIGHBOURS; k++)
            if (label[k] == label[i]) {
                votes++;
                ranks += k;
            }
        if (votes > best_votes || (votes == best_votes && (ranks < best_ranks || (ranks == best_ranks && label[i] < best)))) {
            best = label[i];
            best_votes = votes;
            best_ranks = ranks;
        }
    }
    return best;
}

static void classify(void *arg, int64_t s, int thread)
{
    const job *const j = arg;
    const int64_t size = j->real->h * j->real->w * j->real->c;
    int64_t near[NEIGHBOURS], label[NEIGHBOURS];
    (void)thread;
    for (int k = 0; k < NEIGHBOURS; k++)
        near[k] = INT64_MAX;
    for (int64_t i = 0; i < j->real->n; i++) {
        int64_t d = distance(j->real->image + i * size, j->sample->image + s * size, size), l = j->real->label[i];
        for (int k = 0; k < NEIGHBOURS; k++)
            if (d < near[k]) {             // insert, and move the previous one to the next place
                const int64_t was = near[k], its = label[k];
                near[k] = d;
                label[k] = l;
                d = was;
                l = its;
            }
    }
    j->guess[s] = vote(label);
}

static int read_labelled(kd_dataset *d, const char *path, kd_err *err)
{
    KD_TRY(kd_dataset_read(d, path, INT64_MAX, err));
    if (!d->label)
        return kd_fail(err, KD_EUSAGE, "%s: images without labels", path);
    for (int64_t i = 0; i < d->n; i++)
        if (d->label[i] < 0 || d->label[i] >= CLASSES)
            return kd_fail(err, KD_EUSAGE, "%s: image %lld: label %lld", path, (long long)i, (long long)d->label[i]);
    return 0;
}

static int compare(const char *real_path, const char *sample_path, bool verbose, kd_err *err)
{
    kd_dataset real = { 0 }, sample = { 0 };
    int64_t *guess = NULL, asked[CLASSES] = { 0 }, agreed[CLASSES] = { 0 }, all = 0;
    int rc = read_labelled(&real, real_path, err);
    if (!rc)
        rc = read_labelled(&sample, sample_path, err);
    if (!rc && (real.h != sample.h || real.w != sample.w || real.c != sample.c))
        rc = kd_fail(err, KD_EUSAGE, "%s and %s differ in size", real_path, sample_path);
    if (!rc && real.n < NEIGHBOURS)
        rc = kd_fail(err, KD_EUSAGE, "%s: expected at least %d images, got %lld", real_path, NEIGHBOURS, (long long)real.n);
    if (!rc && !(guess = malloc((size_t)sample.n * sizeof *guess)))
        rc = kd_fail_memory(err, "guesses");
    if (rc)
        goto done;
    job j = { &real, &sample, guess };
    kd_parallel(sample.n, classify, &j);
    for (int64_t s = 0; s < sample.n; s++) {
        asked[sample.label[s]]++;
        agreed[sample.label[s]] += guess[s] == sample.label[s];
        all += guess[s] == sample.label[s];
    }
    for (int c = 0; verbose && c < CLASSES; c++)
        if (asked[c])
            printf("class %d %lld/%lld\n", c, (long long)agreed[c], (long long)asked[c]);
    printf("agreement %lld/%lld %.1f %%\n", (long long)all, (long long)sample.n, 100.0 * (double)all / (double)sample.n);
done:
    free(guess);
    kd_dataset_free(&real);
    kd_dataset_free(&sample);
    return rc;
}

int main(int argc, char **argv)
{
    kd_err err = { 0 };
    const bool verbose = argc > 1 && !strcmp(argv[1], "-v");
    if (argc - verbose != 3)
        return fprintf(stderr, "usage: knn [-v] REAL SAMPLES\n"), 2;
    if (compare(argv[1 + verbose], argv[2 + verbose], verbose, &err))
        fprintf(stderr, "knn: %s\n", err.msg);
    return err.code;
}
