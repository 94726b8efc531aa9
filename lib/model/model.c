// Models: new ones from a seed, and those in files; back to a frame for a file.
#include "model/model.h"
#include "base/memory.h"
#include "formats/model.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kd_model_free(kd_model *m)
{
    if (!m)
        return;
    kd_config_free(m->config);
    kd_params_free(m->params);
    if (!m->lent)
        kd_free(m->w);
    kd_frame_free(m->meta);
    free(m->warning);
    kd_free(m);
}

int kd_model_around(kd_model **out, kd_config *config, float *w, kd_err *err)
{
    kd_model *m = kd_alloc(sizeof *m);
    int code;
    *out = NULL;
    if (!m) {
        code = kd_fail_memory(err, config->path);
        kd_config_free(config);
        return code;
    }
    m->config = config;
    if ((code = kd_params_of(&m->params, config, err)))
        goto done;
    m->lent = w;
    m->w = w ? w : kd_alloc((size_t)m->params->total * sizeof *m->w);
    m->meta = kd_frame_new();
    if (!m->w || !m->meta)
        code = kd_fail(err, KD_EFAIL, "%s: out of memory for %lld parameters", config->path, (long long)m->params->n_trained);
done:
    if (code)
        kd_model_free(m);
    else
        *out = m;
    return code;
}

int kd_model_new(kd_model **out, kd_config *config, uint64_t seed, kd_err *err)
{
    kd_model *m;
    kd_frame *frame = NULL;
    char text[24];
    int code;
    *out = NULL;
    KD_TRY(kd_model_around(&m, config, NULL, err));
    kd_params_init(m->params, seed, m->w);
    snprintf(text, sizeof text, "%" PRIu64, seed);
    if ((code = kd_frame_set_meta(m->meta, "kd_seed", text, err)) || (code = kd_model_frame(&frame, m, KD_F32, err)))
        goto done;
    kd_model_hash(frame, m->hash);
done:
    kd_frame_free(frame);
    if (code)
        kd_model_free(m);
    else
        *out = m;
    return code;
}

// Files ------------------------------------------------------------------------------------------------------------

/// Names for a message, of which the first are said: "14 missing: a, b, c, ... and 2 more".
enum { SHOWN = 12, WIDEST = 150 };
typedef struct names { int n; char text[SHOWN * (WIDEST + 2) + 1]; } names;

static void append(char *buf, size_t room, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void append(char *buf, size_t room, const char *fmt, ...)
{
    const size_t used = strlen(buf);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(buf + used, room - used, fmt, ap);
    va_end(ap);
}

static void add(names *list, const char *name)
{
    if (list->n++ < SHOWN)
        append(list->text, sizeof list->text, "%s%.*s", list->n > 1 ? ", " : "", WIDEST, name);
}

static void say(char *buf, size_t room, const names *list, const char *what)
{
    if (!list->n)
        return;
    append(buf, room, "%s%d %s: %s", *buf ? "; " : "", list->n, what, list->text);
    if (list->n > SHOWN)
        append(buf, room, " and %d more", list->n - SHOWN);
}

static bool is_float(kd_dtype t) { return t == KD_F32 || t == KD_F64 || t == KD_F16 || t == KD_BF16; }

/// Every parameter must be there in its shape, and nothing else.
static int check_tensors(const kd_params *ps, const kd_config *c, const kd_frame *f, const char *file, kd_err *err)
{
    names missing = {0}, unknown = {0}, misshapen = {0};
    for (int i = 0; i < ps->n; i++) {
        const kd_param_info *p = &ps->p[i];
        const kd_tensor *t = kd_frame_get(f, p->name);
        char line[160], have[48], want[48];
        if (!t) {
            add(&missing, p->name);
        } else if (!is_float(t->dtype)) {
            snprintf(line, sizeof line, "%.64s is %s", p->name, kd_dtype_name(t->dtype));
            add(&misshapen, line);
        } else if (!kd_shape_same(&t->shape, &p->shape)) {
            snprintf(line, sizeof line, "%.48s %s, not %s", p->name, kd_shape_str(have, sizeof have, &t->shape),
                     kd_shape_str(want, sizeof want, &p->shape));
            add(&misshapen, line);
        }
    }
    for (int i = 0; i < f->n; i++)
        if (!kd_params_find(ps, f->t[i].name))
            add(&unknown, f->t[i].name);
    char text[3 * sizeof missing.text] = "";
    say(text, sizeof text, &missing, "missing");
    say(text, sizeof text, &unknown, "unknown");
    say(text, sizeof text, &misshapen, "of another shape or type");
    if (*text && c->guessed)
        return kd_fail(err, KD_EUSAGE, "%s: no config in it, and parameters do not fit the %s guessed from them: %s; --config gives one",
                       file, kd_model_type_names[c->type], text);
    return *text ? kd_fail(err, KD_EUSAGE, "%s: parameters do not fit its config: %s", file, text) : 0;
}

static int copy_meta(kd_frame *to, const kd_frame *from, kd_err *err)
{
    for (int i = 0; i < from->n_meta; i++)
        KD_TRY(kd_frame_set_meta(to, from->key[i], from->value[i], err));
    return 0;
}

// take: the tensors' data go as they are read.
static int model_of(kd_model **out, kd_config *config, const kd_frame *f, const char *file, bool take, kd_err *err)
{
    kd_model *m;
    int code;
    *out = NULL;
    KD_TRY(kd_model_around(&m, config, NULL, err));
    if ((code = check_tensors(m->params, m->config, f, file, err)) || (code = copy_meta(m->meta, f, err))) {
        kd_model_free(m);
        return code;
    }
    kd_model_hash(f, m->hash);
    for (int i = 0; i < m->params->n; i++) {
        const kd_param_info *p = &m->params->p[i];
        kd_tensor *t = kd_frame_get(f, p->name);
        kd_convert(m->w + p->offset, KD_F32, t->data, t->dtype, p->count);
        if (take)
            kd_tensor_release(t);
    }
    *out = m;
    return 0;
}

int kd_model_of(kd_model **out, kd_config *config, const kd_frame *f, const char *file, kd_err *err)
{
    return model_of(out, config, f, file, false, err);
}

int kd_model_load(kd_model **out, const char *path, bool raw, kd_err *err)
{
    const char *file = strcmp(path, "-") ? path : "stdin";
    kd_frame *f;
    kd_config *config;
    char *warning = NULL;
    *out = NULL;
    KD_TRY(kd_model_file_load(&f, path, raw, err));
    int code = kd_config_parse(&config, kd_frame_meta(f, "config"), file, true, &warning, err);
    if (!code)
        code = model_of(out, config, f, file, true, err);
    if (!code) {
        (*out)->warning = warning;
        warning = NULL;
    }
    free(warning);
    kd_frame_free(f);
    return code;
}

int kd_model_load_as(kd_model **out, const char *path, kd_config *config, kd_err *err)
{
    const char *file = strcmp(path, "-") ? path : "stdin";
    kd_frame *f = NULL;
    *out = NULL;
    int code = kd_safetensors_load(path, &f, err);
    const char *kind = code ? NULL : kd_frame_kind(f);
    if (!code && kind && !strcmp(kind, "checkpoint/1"))
        code = kd_fail(err, KD_EUSAGE, "%s: a checkpoint has its own config", file);
    else if (!code)
        code = kd_frame_want(f, file, "model/1", true, err);
    if (code)
        kd_config_free(config);
    else
        code = model_of(out, config, f, file, true, err);
    kd_frame_free(f);
    return code;
}

int kd_params_add_gradients(kd_frame *f, const kd_params *ps, float *flat, kd_err *err)
{
    for (int i = 0; i < ps->n; i++) {
        const kd_param_info *p = &ps->p[i];
        char name[256];
        if (p->tags & KD_TAG_BUFFER)
            continue;
        snprintf(name, sizeof name, "grad.%s", p->name);
        KD_TRY(kd_frame_add(f, name, KD_F32, p->shape, flat + p->offset, NULL, err));
    }
    return 0;
}

/// Appends a sentence to the warning; takes it (NULL: nothing to say).
static int warn(kd_model *m, char *said, kd_err *err)
{
    kd_str s = {0};
    if (!said || !m->warning) {
        m->warning = said ? said : m->warning;
        return 0;
    }
    if (!kd_str_printf(&s, err, "%s; %s", m->warning, said)) {
        free(m->warning);
        m->warning = s.p;
        s.p = NULL;
    }
    free(s.p);
    free(said);
    return err->code;
}

int kd_model_wrap(kd_model *m, const char *wrapper, kd_err *err)
{
    kd_config *c;
    char *said;
    KD_TRY(kd_config_wrap(&c, m->config, wrapper, &said, err));
    kd_config_free(m->config);
    m->config = c;
    return warn(m, said, err);
}

// Frames -----------------------------------------------------------------------------------------------------------

/// Of our own metadata only what says where the weights come from; the rest is about the file they were in. What others
/// put beside their model stays.
static bool is_carried(const char *key)
{
    static const char *const ours[] = { "kd_history", "kd_step", "kd_seen", "kd_seed" };
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (!strcmp(key, ours[i]))
            return true;
    return strncmp(key, "kd_", 3) && strcmp(key, "kd") && strcmp(key, "config");
}

static int set_meta(kd_frame *f, const kd_model *m, kd_err *err)
{
    const char *kind = kd_frame_kind(m->meta);
    const bool checkpoint = kind && !strcmp(kind, "checkpoint/1");
    KD_TRY(kd_frame_set_meta(f, "kd", "model/1", err));
    KD_TRY(kd_frame_set_meta(f, "config", m->config->json, err));
    for (int i = 0; i < m->meta->n_meta; i++) {
        const char *key = m->meta->key[i];
        if (is_carried(key) && (!checkpoint || !strncmp(key, "kd_", 3)))
            KD_TRY(kd_frame_set_meta(f, key, m->meta->value[i], err));
    }
    return 0;
}

/// Converts, and refuses what became infinite on the way.
static int put(kd_tensor *t, const float *w, kd_err *err)
{
    const int64_t n = kd_tensor_count(t);
    kd_convert(t->data, t->dtype, w, KD_F32, n);
    if (t->dtype != KD_F16 && t->dtype != KD_BF16)
        return 0;
    for (int64_t i = 0; i < n; i++) {
        float back;
        if (!isfinite(w[i]) || fabsf(w[i]) < 65504)
            continue;
        kd_convert(&back, KD_F32, (const char *)t->data + i * 2, t->dtype, 1);
        if (!isfinite(back))
            return kd_fail(err, KD_EFAIL, "%s: its value %.9g does not fit %s", t->name, (double)w[i], kd_dtype_name(t->dtype));
    }
    return 0;
}

static int frame_of(kd_frame **out, const kd_model *m, kd_dtype dtype, bool lent, kd_err *err)
{
    kd_frame *f = kd_frame_new();
    int code = f ? set_meta(f, m, err) : kd_fail_memory(err, "a model");
    for (int i = 0; !code && i < m->params->n; i++) {
        const kd_param_info *p = &m->params->p[i];
        kd_tensor *t;
        code = kd_frame_add(f, p->name, dtype, p->shape, lent ? m->w + p->offset : NULL, &t, err);
        if (!code && !lent)
            code = put(t, m->w + p->offset, err);
    }
    if (code) {
        kd_frame_free(f);
        f = NULL;
    }
    *out = f;
    return code;
}

int kd_model_frame(kd_frame **out, const kd_model *m, kd_dtype dtype, kd_err *err) { return frame_of(out, m, dtype, false, err); }
int kd_model_frame_lent(kd_frame **out, const kd_model *m, kd_err *err) { return frame_of(out, m, KD_F32, true, err); }
