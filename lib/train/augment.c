// One affine map of an image, made of random flips, scalings, rotations and shifts, and the vector that tells the model
// what was done to it, so that it does not learn to draw turned pictures unasked.
#include "train/augment.h"
#include <math.h>
#include <string.h>

// Places in the draws; the metadata draw_order of tests/golden/augmentation.safetensors has the same order.
enum { X_FLIP, DO_Y_FLIP, Y_FLIP, DO_SCALE, SCALE, DO_ROTATE, ROTATE, DO_ANISO, ANISO_ANGLE, ANISO, DO_SHIFT, SHIFT_X, SHIFT_Y };

void kd_augment_draw(float draws[KD_AUGMENT_DRAWS], const kd_rng *r)
{
    static const int uniform[] = { X_FLIP, DO_Y_FLIP, Y_FLIP, DO_SCALE, DO_ROTATE, ROTATE, DO_ANISO, ANISO_ANGLE, DO_SHIFT };
    static const int normal[] = { SCALE, ANISO, SHIFT_X, SHIFT_Y };
    float z[4];

    for (int i = 0; i < 9; i++) draws[uniform[i]] = kd_rng_uniform(r, (uint64_t)i);
    kd_rng_normal(r, z, 16, 4);                       // elements apart from the uniforms'
    for (int i = 0; i < 4; i++) draws[normal[i]] = z[i];
    draws[X_FLIP] = draws[X_FLIP] >= 0.5f;            // bits
    draws[Y_FLIP] = draws[Y_FLIP] >= 0.5f;
}

// 3x3 matrices on (x, y, 1): m becomes m n, so that n acts before what is there ---------------------------------------

static void multiply(double m[9], const double n[9])
{
    double p[9];
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            p[3 * i + j] = m[3 * i] * n[j] + m[3 * i + 1] * n[3 + j] + m[3 * i + 2] * n[6 + j];
    memcpy(m, p, sizeof p);
}

static void shift(double m[9], double x, double y) { multiply(m, (double[]){ 1, 0, x, 0, 1, y, 0, 0, 1 }); }
static void scale(double m[9], double x, double y) { multiply(m, (double[]){ x, 0, 0, 0, y, 0, 0, 0, 1 }); }
static void rotate(double m[9], double a)
{
    multiply(m, (double[]){ cos(a), -sin(a), 0, sin(a), cos(a), 0, 0, 0, 1 });
}

void kd_augment_matrix(double m[9], float cond[KD_AUGMENT_COND], const float draws[KD_AUGMENT_DRAWS], int64_t h, int64_t w, double prob)
{
    const double width = (double)w, height = (double)h, pi = 3.14159265358979323846;
    const bool on_flip = draws[DO_Y_FLIP] < prob, on_scale = draws[DO_SCALE] < prob, on_rotate = draws[DO_ROTATE] < prob;
    const bool on_aniso = draws[DO_ANISO] < prob, on_shift = draws[DO_SHIFT] < prob;

    memcpy(m, (double[]){ 1, 0, 0, 0, 1, 0, 0, 0, 1 }, 9 * sizeof *m);
    memset(cond, 0, KD_AUGMENT_COND * sizeof *cond);
    if (prob == 0) return;                            // switched off, the left-right flip too

    const double a0 = draws[X_FLIP];
    const double a1 = on_flip ? draws[Y_FLIP] : 0;
    const double a2 = on_scale ? draws[SCALE] : 0;
    const double a3 = on_rotate ? draws[ROTATE] * 2 * pi - pi : 0;
    const double a4 = on_aniso ? draws[ANISO_ANGLE] * 2 * pi - pi : 0, a5 = on_aniso ? draws[ANISO] : 0;
    const double a6 = on_shift ? draws[SHIFT_X] : 0, a7 = on_shift ? draws[SHIFT_Y] : 0;

    shift(m, width / 2 - 0.5, height / 2 - 0.5);
    scale(m, 1 - 2 * a0, 1 - 2 * a1);
    scale(m, exp2(0.2 * a2), exp2(0.2 * a2));
    rotate(m, -a3);
    rotate(m, a4);
    scale(m, exp2(0.2 * a5), exp2(-0.2 * a5));
    rotate(m, -a4);
    shift(m, height * a6 / 8, width * a7 / 8);        // x by the height, y by the width: as the peer does
    shift(m, -width / 2 + 0.5, -height / 2 + 0.5);

    const double c[KD_AUGMENT_COND] = { a0, a1, a2, cos(a3) - 1, sin(a3), a5 * cos(a4), a5 * sin(a4), a6, a7 };
    for (int i = 0; i < KD_AUGMENT_COND; i++) cond[i] = (float)c[i];
}

// Warping --------------------------------------------------------------------------------------------------------------

// Catmull-Rom through f[1] at x = 0 and f[2] at x = 1
static double cubic(const double f[4], double x)
{
    return f[1] + x / 2 * (f[2] - f[0] + x * (2 * f[0] - 5 * f[1] + 4 * f[2] - f[3] + x * (3 * (f[1] - f[2]) + f[3] - f[0])));
}

// Index into 0..n-1 of an endless mirrored row: 0 1 2 3 2 1 0 1 ... The edge is not repeated.
static int64_t reflect(int64_t i, int64_t n)
{
    if (n == 1) return 0;
    const int64_t period = 2 * (n - 1);
    i = ((i % period) + period) % period;
    return i < n ? i : period - i;
}

void kd_augment_warp(float *out, const uint8_t *in, int64_t h, int64_t w, int64_t c, const double m[9])
{
    // Inverse of the affine map: output pixel (x, y) is read at M^-1 (x, y, 1).
    const double det = m[0] * m[4] - m[1] * m[3];
    const double a = m[4] / det, b = -m[1] / det, d = -m[3] / det, e = m[0] / det;

    for (int64_t y = 0; y < h; y++) {
        for (int64_t x = 0; x < w; x++) {
            const double px = a * ((double)x - m[2]) + b * ((double)y - m[5]);
            const double py = d * ((double)x - m[2]) + e * ((double)y - m[5]);
            const double x0 = floor(px), y0 = floor(py);
            int64_t col[4], row[4];
            for (int i = 0; i < 4; i++) {
                col[i] = reflect((int64_t)x0 - 1 + i, w) * c;
                row[i] = reflect((int64_t)y0 - 1 + i, h) * w * c;
            }
            for (int64_t k = 0; k < c; k++) {
                double across[4];
                for (int i = 0; i < 4; i++) {
                    const uint8_t *p = in + row[i] + k;
                    across[i] = cubic((double[]){ p[col[0]], p[col[1]], p[col[2]], p[col[3]] }, px - x0);
                }
                out[(y * w + x) * c + k] = (float)(cubic(across, py - y0) / 255 * 2 - 1);
            }
        }
    }
}
