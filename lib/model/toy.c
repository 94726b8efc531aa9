#include "model/toy.h"
#include "base/memory.h"
#include "formats/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const char *const kd_toy_modules[] = { "weight", "std", "mean", NULL };

int kd_toy_params(kd_params *ps, const kd_config *c, kd_err *err)
{
    const kd_shape each = KD_SHAPE(c->components), image = KD_SHAPE(c->components, c->channels, c->size[0], c->size[1]);
    const bool done = kd_params_declare(ps, "weight", each, KD_INIT_ONE, 0, KD_TAG_BUFFER) &&
                      kd_params_declare(ps, "std", each, KD_INIT_ONE, 0, KD_TAG_BUFFER) &&
                      kd_params_declare(ps, "mean", c->per_pixel ? each : image, KD_INIT_ZERO, 0, KD_TAG_BUFFER);
    return done ? 0 : kd_fail_memory(err, "a model's parameters");
}

static int check(const kd_frame *f, const char *file, kd_err *err)
{
    for (int i = 0; kd_toy_modules[i]; i++)
        if (!kd_frame_get(f, kd_toy_modules[i]))
            return kd_fail(err, KD_EUSAGE, "%s: no tensor %s: a mixture has weight, std and mean", file, kd_toy_modules[i]);
    const kd_shape *w = &kd_frame_get(f, "weight")->shape, *s = &kd_frame_get(f, "std")->shape, *m = &kd_frame_get(f, "mean")->shape;
    char text[3][48];
    if (w->n == 1 && w->d[0] > 0 && kd_shape_same(w, s) && (m->n == 1 || m->n == 4) && m->d[0] == w->d[0])
        return 0;
    return kd_fail(err, KD_EUSAGE, "%s: expected weight [k], std [k] and mean [k] or [k,c,h,w], got %s, %s and %s", file,
                   kd_shape_str(text[0], sizeof text[0], w), kd_shape_str(text[1], sizeof text[1], s),
                   kd_shape_str(text[2], sizeof text[2], m));
}

static int config_of(kd_config **c, const kd_frame *f, const char *file, const int64_t *shape, kd_err *err)
{
    const kd_shape *mean = &kd_frame_get(f, "mean")->shape;
    kd_str s = {0};
    if (mean->n == 4 && shape)
        return kd_fail(err, KD_EUSAGE, "%s: its mean [k,c,h,w] gives the shape of images", file);
    if (mean->n == 1 && !shape)
        return kd_fail(err, KD_EUSAGE, "%s: its mean [k] is for each pixel: the shape of images is missing", file);
    if (!shape)
        shape = mean->d + 1;
    int code = kd_str_printf(&s, err, "{ \"model\": { \"type\": \"toy_mixture\", \"input_channels\": %lld, \"input_size\": [%lld, %lld], "
                             "\"components\": %lld, \"per_pixel\": %s, \"sigma_data\": 0.5, \"sigma_min\": 0.01, \"sigma_max\": 80.0 } }",
                             (long long)shape[0], (long long)shape[1], (long long)shape[2], (long long)mean->d[0],
                             mean->n == 1 ? "true" : "false");
    if (!code)
        code = kd_config_parse(c, s.p, file, false, NULL, err);
    free(s.p);
    return code;
}

static int fill(kd_model *m, const kd_frame *f, const char *file, kd_err *err)
{
    for (int i = 0; i < m->params->n; i++) {
        const kd_param_info *p = &m->params->p[i];
        const kd_tensor *t = kd_frame_get(f, p->name);
        float *to = m->w + p->offset;
        kd_convert(to, KD_F32, t->data, t->dtype, p->count);
        for (int64_t k = 0; k < p->count; k++)
            if (!isfinite(to[k]) || (p->name[0] != 'm' && to[k] <= 0))
                return kd_fail(err, KD_EUSAGE, "%s: %s: expected %s, got %g", file, p->name,
                               p->name[0] == 'm' ? "numbers" : "numbers above 0", (double)to[k]);
    }
    return 0;
}

int kd_toy_new(kd_model **out, const kd_frame *f, const char *file, const int64_t *shape, kd_err *err)
{
    kd_config *c;
    kd_model *m;
    kd_frame *frame = NULL;
    *out = NULL;
    KD_TRY(check(f, file, err));
    KD_TRY(config_of(&c, f, file, shape, err));
    KD_TRY(kd_model_new(&m, c, 0, err));
    int code = kd_frame_set_meta(m->meta, "kd_seed", NULL, err);       // nothing was drawn
    if (!code)
        code = fill(m, f, file, err);
    if (!code)
        code = kd_model_frame(&frame, m, KD_F32, err);
    if (code) {
        kd_model_free(m);
        return code;
    }
    kd_model_hash(frame, m->hash);
    kd_frame_free(frame);
    *out = m;
    return 0;
}
