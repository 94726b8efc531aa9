#include "diffusion/who.h"
#include "base/memory.h"
#include "base/random.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Classes ----------------------------------------------------------------------------------------------------------

static int parse_list(kd_classes *c, const char *text, kd_err *err)
{
    for (const char *s = text;;) {
        char *end;
        const long long k = strtoll(s, &end, 10);
        if (end == s || *s < '0' || *s > '9' || k >= c->classes || (*end && *end != ','))
            return kd_fail(err, KD_EUSAGE, "--class: expected all, none, random or classes 0 to %lld with commas between, got '%s'",
                           (long long)c->classes - 1, text);
        c->cycle[c->n++] = k;
        if (!*end) return 0;
        s = end + 1;
    }
}

int kd_classes_parse(kd_classes *c, const char *text, int64_t classes, kd_err *err)
{
    *c = (kd_classes){ .classes = classes };
    if (!classes && text && strcmp(text, "none")) return kd_fail(err, KD_EUSAGE, "--class: the model has no classes");
    if (!classes || (text && !strcmp(text, "random"))) return 0;
    const bool all = !text || !strcmp(text, "all");
    c->cycle = malloc((all ? (size_t)classes : strlen(text) + 1) * sizeof *c->cycle);
    if (!c->cycle) return kd_fail_memory(err, "classes");
    for (int64_t k = 0; all && k < classes; k++) c->cycle[c->n++] = k;
    if (all) return 0;
    if (strcmp(text, "none")) return parse_list(c, text, err);
    c->cycle[c->n++] = classes;
    return 0;
}

void kd_classes_free(kd_classes *c)
{
    free(c->cycle);
    c->cycle = NULL;
}

int64_t kd_class_of(const kd_classes *c, kd_draw draw)
{
    if (c->cycle) return c->cycle[draw.index % (uint64_t)c->n];
    const kd_rng r = kd_rng_of(draw.seed, KD_RNG_LABEL, 0, draw.index, 0);
    return (int64_t)((double)kd_rng_uniform(&r, 0) * (double)c->classes);
}

// Seeds ------------------------------------------------------------------------------------------------------------

static bool parse_seed(const char **s, uint64_t *to)
{
    char *end;
    errno = 0;
    if (**s < '0' || **s > '9') return false;
    *to = strtoull(*s, &end, 10);
    *s = end;
    return !errno;
}

int kd_seeds_parse(uint64_t **seeds, int64_t *n, const char *text, kd_err *err)
{
    enum { MOST = 1 << 24 };
    *seeds = NULL, *n = 0;
    for (const char *s = text;; s++) {
        uint64_t a, b;
        bool good = parse_seed(&s, &a);
        b = a;
        if (good && *s == '-') s++, good = parse_seed(&s, &b);
        if (!good || b < a || b - a >= MOST || *n + (int64_t)(b - a) >= MOST || (*s && *s != ','))
            return kd_fail(err, KD_EUSAGE, "--seeds: expected seeds as 3,5,10-12, at most 2^24 of them, got '%s'", text);
        uint64_t *more = kd_realloc(*seeds, (size_t)(*n + (int64_t)(b - a) + 1) * sizeof *more);
        if (!more) return kd_fail_memory(err, "seeds");
        *seeds = more;
        for (uint64_t k = 0; k <= b - a; k++) more[(*n)++] = a + k;
        if (!*s) return 0;
    }
}

int kd_interpolation_parse(kd_interpolation *i, const char *text, kd_err *err)
{
    const char *s = text;
    uint64_t n = 0;
    const bool good = parse_seed(&s, &i->from) && *s++ == ',' && parse_seed(&s, &i->to) && *s++ == ',' && parse_seed(&s, &n) && !*s;
    i->n = (int64_t)n;
    if (good && n >= 2 && n <= 1 << 24) return 0;
    return kd_fail(err, KD_EUSAGE, "--interpolate: expected A,B,N: two seeds and a number of images from 2, got '%s'", text);
}

void kd_slerp(float *a, const float *b, int64_t size, double t)
{
    double aa = 0, bb = 0, ab = 0;
    for (int64_t i = 0; i < size; i++) aa += (double)a[i] * a[i], bb += (double)b[i] * b[i], ab += (double)a[i] * b[i];
    const double angle = acos(fmax(-1, fmin(1, ab / sqrt(aa * bb)))), s = sin(angle);
    const bool line = !(s > 1e-6);                                     // the same direction, or a zero
    const double fa = t == 1 ? 0 : line ? 1 - t : sin((1 - t) * angle) / s, fb = t == 0 ? 0 : line ? t : sin(t * angle) / s;
    for (int64_t i = 0; i < size; i++) a[i] = t == 0 ? a[i] : t == 1 ? b[i] : (float)(fa * a[i] + fb * b[i]);
}
