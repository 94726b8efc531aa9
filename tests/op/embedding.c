#include "tests/op/test.h"

static const int64_t cases[][3] = { /* N, R, C */ { 1, 1, 1 }, { 7, 3, 5 }, { 5, 11, 130 } };

static kd_val *build(t_build *b)
{
    kd_val *table = t_input(b, T_SHARED, KD_SHAPE(b->c[1], b->c[2]), NORMAL(0, 1));
    return kd_embedding(b->g, table, t_input(b, T_IMAGES, KD_SHAPE(b->c[0]), INDEX(b->c[1])));
}

static void ref(const t_ref *r)
{
    for (int64_t i = 0; i < r->c[0] * r->c[2]; i++)
        r->y[i] = r->in[0][(int64_t)r->in[1][i / r->c[2]] * r->c[2] + i % r->c[2]];
}

KD_TEST_OP(embedding, cases, .build = build, .ref = ref)

// The index is checked where it is set.
static void out_of_range(t_run *t)
{
    const int64_t good[] = { 0, 2 }, large[] = { 0, 3 }, negative[] = { -1, 0 };
    kd_graph *g = kd_graph_new();
    kd_val *table = kd_input(g, "table", KD_F32, KD_SHAPE(3, 2)), *i = kd_input(g, "class_cond", KD_I64, KD_SHAPE(2));
    kd_val *y = kd_embedding(g, table, i);
    kd_err err = { 0 };
    kd_program *p = NULL;
    t_check(t, !kd_program_new(&p, g, t->be, &y, 1, &err) && !kd_program_set(p, i, good, &err), "%s", err.msg);
    t_check(t, kd_program_set(p, i, large, &err) == KD_EUSAGE, "3 of 3 rows is no error");
    t_check(t, !strcmp(err.msg, "class_cond: image 1: expected 0 to 2, got 3"), "%s", err.msg);
    err = (kd_err){ 0 };
    t_check(t, kd_program_set(p, i, negative, &err) == KD_EUSAGE, "-1 is no error");
    t_check(t, !strcmp(err.msg, "class_cond: image 0: expected 0 to 2, got -1"), "%s", err.msg);
    kd_program_free(p);
}

KD_TEST_FN(embedding_range, out_of_range)
