// Linear multistep (Adams-Bashforth on uneven points): the slope is continued as the polynomial through the last `order`
// slopes and integrated exactly. Hairer, Norsett, Wanner, "Solving ordinary differential equations I", III.5; k-diffusion
// integrates the same polynomials by quadrature.
#include "diffusion/run.h"
#include <string.h>

// Factor of slope j: the integral from s[0] to s1 of the polynomial that is 1 at s[j] and 0 at the other points
// s[0] .. s[n-1] (the latest first). In the variable (u - s[0]) / (s1 - s[0]), in which it runs over [0, 1].
static double factor(const double *s, int n, int j, double s1)
{
    const double h = s1 - s[0];
    double poly[KD_LMS_MAX_ORDER + 1] = { 1 }, sum = 0;
    for (int k = 0, degree = 0; k < n; k++) {
        if (k == j) continue;
        const double root = (s[k] - s[0]) / h, slope = h / (s[j] - s[k]);      // times slope * (v - root)
        degree++;
        for (int i = degree; i >= 0; i--) poly[i] = slope * ((i > 0 ? poly[i - 1] : 0) - root * poly[i]);
    }
    for (int i = n - 1; i >= 0; i--) sum += poly[i] / (i + 1);
    return h * sum;
}

int kd_lms(kd_sampler_run *r, kd_err *err)
{
    const int order = r->o->order ? (int)r->o->order : 4;
    float *d[KD_LMS_MAX_ORDER];                                        // slopes, the latest first
    double s[KD_LMS_MAX_ORDER];                                        // and their noise levels
    for (int j = 0; j < order; j++) KD_TRY(kd_run_buffer(r, &d[j], err));
    for (r->step = 0; r->step < r->steps; r->step++) {
        float *oldest = d[order - 1];
        memmove(d + 1, d, (size_t)(order - 1) * sizeof *d);
        memmove(s + 1, s, (size_t)(order - 1) * sizeof *s);
        d[0] = oldest, s[0] = r->sigmas[r->step];
        KD_TRY(kd_run_slope(r, d[0], r->x, s[0], err));
        const int n = r->step + 1 < order ? (int)r->step + 1 : order;
        for (int j = 0; j < n; j++) kd_run_mix(r, r->x, 1, r->x, factor(s, n, j, r->sigmas[r->step + 1]), d[j]);
    }
    return 0;
}
