// Networks by the names and shapes of their weights: one row of `networks` for each kind, one file for what its shapes say.
#include "model/guess_private.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kd_tensor *find(const kd_guess *g, const char *fmt, va_list ap)
{
    char name[128];
    vsnprintf(name, sizeof name, fmt, ap);
    return kd_frame_get(g->f, name);
}

int64_t kd_guess_size(const kd_guess *g, int d, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const kd_tensor *t = find(g, fmt, ap);
    va_end(ap);
    return t && d < t->shape.n ? t->shape.d[d] : 0;
}

bool kd_guess_has(const kd_guess *g, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const kd_tensor *t = find(g, fmt, ap);
    va_end(ap);
    return t != NULL;
}

int kd_guess_count(const kd_guess *g, const char *prefix)
{
    const size_t length = strlen(prefix);
    int n = 0;
    for (int i = 0; i < g->f->n; i++) {
        const char *name = g->f->t[i].name;
        if (strncmp(name, prefix, length) || name[length] < '0' || name[length] > '9')
            continue;
        const long at = strtol(name + length, NULL, 10);
        if (at >= n && at < 1000)
            n = (int)at + 1;
    }
    return n;
}

static int64_t root_of(int64_t n)
{
    const int64_t r = n > 0 ? (int64_t)llround(sqrt((double)n)) : 0;
    return r * r == n ? r : 0;
}

bool kd_guess_patch(int64_t product, int64_t *channels, int64_t *side)
{
    *channels = product % 3 == 0 && root_of(product / 3) ? 3 : 1;
    *side = root_of(product / *channels);
    return *side > 0 && *side < 1 << 10;
}

int kd_guess_list(kd_str *s, const char *before, const int64_t *v, int n, kd_err *err)
{
    KD_TRY(kd_str_printf(s, err, "%s[", before));
    for (int i = 0; i < n; i++)
        KD_TRY(kd_str_printf(s, err, "%s%" PRId64, i ? ", " : "", v[i]));
    return kd_str_printf(s, err, "], ");
}

int kd_guess_cannot(const kd_guess *g, kd_err *err, const char *why)
{
    return kd_fail(err, KD_EUSAGE, "%s: no config in it, and none can be guessed: %s; --config gives one", g->file, why);
}

// The table ------------------------------------------------------------------------------------------------------

typedef struct network { const char *marker; int (*guess)(kd_guess *, kd_err *); } network;      // marker: a weight it always has
static const network networks[] = {
    { "patch_in.proj.weight", kd_guess_transformer_v2 },
    { "blocks.0.self_attn.qk_norm.scale", kd_guess_transformer_v1 },
    { "input_blocks.0.0.weight", kd_guess_guided },
    { "u_net.d_blocks.0.1.main.2.weight", kd_guess_image_v1 },
    { "inner_model.u_net.d_blocks.0.1.main.2.weight", kd_guess_image_v1 } };

static int guess(kd_guess *g, kd_err *err)
{
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        if (kd_frame_get(g->f, networks[i].marker))
            return networks[i].guess(g, err);
    return kd_guess_cannot(g, err, "its names are of no network known here");
}

int kd_guess_json(char **json, char **said, const kd_frame *weights, const char *file, kd_err *err)
{
    kd_guess g = { .f = weights, .file = file };
    kd_str s = {0};
    *json = *said = NULL;
    if (!guess(&g, err) && !kd_str_printf(&s, err, "%s: no config in it: from names and shapes %s; not told by them, and taken: %s; "
                                          "--config says otherwise", file, g.told.p, g.taken.p)) {
        *json = g.config.p;
        *said = s.p;
        g.config.p = s.p = NULL;
    }
    free(g.config.p);
    free(g.told.p);
    free(g.taken.p);
    free(s.p);
    return err->code;
}

int kd_guess_config(kd_config **c, const kd_frame *weights, const char *file, char **said, kd_err *err)
{
    char *json;
    kd_str path = {0};                                    // later errors say that nobody wrote this config
    *c = NULL;
    if (!kd_guess_json(&json, said, weights, file, err) && !kd_str_printf(&path, err, "%s: config guessed from its weights", file) &&
        !kd_config_parse(c, json, path.p, false, NULL, err))
        (*c)->guessed = true;
    free(path.p);
    free(json);
    if (err->code) {
        free(*said);
        *said = NULL;
    }
    return err->code;
}
