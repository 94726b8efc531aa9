// Every allocation of lib/metric failing in turn: each score, each way to a set, and what is said of them ends with a sentence.
#include "base/memory.h"
#include "device/device.h"
#include "metric/fid.h"
#include "metric/kid.h"
#include "metric/neighbours.h"
#include "metric/open.h"
#include "metric/score.h"
#include "tests/support/fault.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 20, D = 3 };
static float rows[2][N * D], logits[N * D];
static double mu[2][D], cov[2][D * D];

static void make_rows(void)
{
    for (int i = 0; i < N * D; i++) {
        rows[0][i] = (float)sin(i * i), rows[1][i] = (float)cos(i * i + i), logits[i] = rows[0][i];
        for (int s = 0; s < 2; s++) mu[s][i % D] += (double)rows[s][i] / N;
    }
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < D * D; j++)
                cov[s][j] += (rows[s][i * D + j / D] - mu[s][j / D]) * (rows[s][i * D + j % D] - mu[s][j % D]) / (N - 1);
}

static int scores(kd_err *err)
{
    const kd_matrix x = { rows[0], N, D, NULL }, y = { rows[1], N, D, NULL }, l = { logits, N, D, NULL };
    const kd_gauss a = { N, D, mu[0], cov[0] }, b = { N, D, mu[1], cov[1] };
    kd_fid f;
    kd_coverage c;
    double m[D], v[D * D], one, two;
    int64_t size = 10;
    KD_TRY(kd_moments_of(&x, m, v, err));
    KD_TRY(kd_fid_of(&f, &a, &b, 0, err));
    KD_TRY(kd_fid_bootstrap(&one, &two, &a, &x, &b, &y, 2, 1, err));
    KD_TRY(kd_fid_infinite(&one, &two, &a, &y, 2, 1, err));
    KD_TRY(kd_kid_partitions(&one, &x, &y, 15, err));
    KD_TRY(kd_kid_subsets(&one, &two, &x, &y, 2, &size, 1, err));
    KD_TRY(kd_kid_subsets(&one, &two, &x, &y, 6, &size, 1, err));
    KD_TRY(kd_coverage_of(&c, &x, &y, 3, err));
    return kd_inception_score(&one, &two, &l, 2, err);
}

// Vectors that come out of order, to a set; that to both files.
static int collected(kd_err *err)
{
    static const float spatial[2 * N] = { 1, 2, 3 };
    static int64_t index[N];
    kd_collect *c = NULL;
    kd_set *s = NULL;
    kd_out *out = NULL;
    for (int i = 0; i < N; i++) index[i] = N - i;
    int code = kd_collect_new(&c, D, 2, D, true, err);
    if (!code) code = kd_collect_add(c, N, &(kd_vectors){ rows[0], spatial, logits, index }, err);
    if (!code) code = kd_collect_finish(&s, c, "set", &(kd_made){ .extractor = "a", .resizer = "c", .images_crop = "d" }, err);
    for (int features = 0; !code && features < 2; features++) {
        code = kd_out_open(&out, "/dev/null", false, err);
        if (!code) code = kd_set_write(out, s, features, "history", err);
        if (!code) code = kd_out_commit(out, err);
        kd_out_close(out);
        out = NULL;
    }
    kd_collect_free(c), kd_set_free(s);
    return code;
}

static int opened(const char *path, kd_err *err)
{
    kd_set_source source = { .options = { .features = "random", .batch = 2 }, .open = kd_device_open, .device = "cpu" };
    kd_set *s = NULL;
    const int code = kd_set_open(&s, path, &source, err);
    kd_set_free(s);
    kd_set_source_close(&source);
    return code;
}

// All scores of two sets of vectors, told in both ways.
static int told(kd_err *err)
{
    kd_set *set[2] = {0};
    kd_scores s;
    kd_str text = {0};
    json_t *doc = NULL;
    kd_score_options o = kd_score_defaults();
    o.bootstrap = 2, o.points = 2;
    int code = kd_score_parse(&o.metrics, "fid,kid,kid-parts,fid-infinite,precision,recall,density,coverage", err);
    for (int i = 0; !code && i < 2; i++) {
        kd_collect *c = NULL;
        code = kd_collect_new(&c, D, 0, 0, true, err);
        if (!code) code = kd_collect_add(c, N, &(kd_vectors){ .feature = rows[i] }, err);
        if (!code) code = kd_collect_finish(&set[i], c, "set", &(kd_made){0}, err);
        kd_collect_free(c);
    }
    if (!code) code = kd_scores_of(&s, set[0], set[1], &o, err);
    if (!code) code = kd_scores_text(&text, &s, set[0], set[1], err);
    if (!code) code = kd_scores_json(&doc, &s, set[0], set[1], err);
    free(text.p), json_decref(doc);
    kd_set_free(set[0]), kd_set_free(set[1]);
    return code;
}

// What the program does when it is run by fault_each_allocation. A failure without a sentence is another exit status.
static int work(const char *what)
{
    kd_err err = {0};
    int code;
    make_rows();
    if (!strcmp(what, "scores")) code = scores(&err);
    else if (!strcmp(what, "collected")) code = collected(&err);
    else if (!strcmp(what, "told")) code = told(&err);
    else code = opened(what, &err);
    return code != err.code || (code && !err.msg[0]) ? 99 : code;
}

static void each_fails(void **state)
{
    static const char *const works[] = { "scores", "collected", "told", "tests/golden/npz/stats_s.npz", "tests/golden/edm2/protocol2.pkl",
                                         "tests/golden/edm2/dinov2.pkl:fd_dinov2", "tests/golden/npz/a.safetensors:a" };
    (void)state;
    setenv("OPENBLAS_NUM_THREADS", "1", 1);                // it starts its threads when it is loaded: once a run
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) assert_true(fault_each_allocation("metric_memory", works[i]) > 5);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(each_fails) };
    if (argc > 1) return work(argv[1]);
    return cmocka_run_group_tests_name("metric_memory", tests, NULL, NULL);
}
