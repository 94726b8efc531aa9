#include "tests/op/test.h"
#include "op/unet.h"

static const int64_t cases[][4] = { { 1, 1, 1, 1 }, { 3, 5, 4, 7 }, { 2, 9, 11, 70 } };     // N, H, W, C

static kd_val *build(t_build *b)
{
    return kd_image_mean(b->g, t_input(b, T_IMAGES, KD_SHAPE(b->c[0], b->c[1], b->c[2], b->c[3]), NORMAL(0, 1)));
}

static void ref(const t_ref *r)
{
    const int64_t rows = r->c[1] * r->c[2], c = r->c[3];
    for (int64_t n = 0; n < r->c[0]; n++)
        for (int64_t k = 0; k < c; k++) {
            double sum = 0;
            for (int64_t i = 0; i < rows; i++) sum += r->in[0][(n * rows + i) * c + k];
            r->y[n * c + k] = sum / (double)rows;
        }
}

KD_TEST_OP(image_mean, cases, .build = build, .ref = ref)

static kd_val *build_add(t_build *b)
{
    kd_val *x = t_input(b, T_IMAGES, KD_SHAPE(b->c[0], b->c[1], b->c[2], b->c[3]), NORMAL(0, 1));
    return kd_add_image(b->g, x, t_input(b, T_IMAGES, KD_SHAPE(b->c[0], b->c[3]), NORMAL(0, 1)));
}

static void ref_add(const t_ref *r)
{
    const int64_t per = r->c[1] * r->c[2] * r->c[3], c = r->c[3];
    for (int64_t i = 0; i < r->c[0] * per; i++) r->y[i] = r->in[0][i] + r->in[1][i / per * c + i % c];
}

KD_TEST_OP(add_image, cases, .build = build_add, .ref = ref_add)
