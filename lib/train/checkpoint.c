// checkpoint/1: the whole state in one safetensors file. The page is formats/checkpoint.md.
#include "base/memory.h"
#include "train/trainer_state.h"
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// The arrays of a state, by the prefix of their tensors' names. Moments exist for trained parameters only.
typedef struct part { const char *prefix; float *on_backend; bool trained_only; } part;
enum { PARTS = 4 };

static void parts_of(const kd_trainer *t, part p[PARTS])
{
    p[0] = (part){ "model.", t->s.w, false };
    p[1] = (part){ "ema.", t->s.ema, false };
    p[2] = (part){ "opt.m.", t->s.m, true };
    p[3] = (part){ "opt.v.", t->s.v, true };
}

static int64_t part_size(const kd_trainer *t, const part *p) { return p->trained_only ? t->ps->trained : t->ps->total; }

// Saving ---------------------------------------------------------------------------------------------------------------

static int put_int(kd_frame *f, const char *key, int64_t value, kd_err *err)
{
    char s[32];
    snprintf(s, sizeof s, "%" PRId64, value);
    return kd_frame_set_meta(f, key, s, err);
}

static int put_u64(kd_frame *f, const char *key, const char *format, uint64_t value, kd_err *err)
{
    char s[32];
    snprintf(s, sizeof s, format, value);
    return kd_frame_set_meta(f, key, s, err);
}

static int put_num(kd_frame *f, const char *key, double value, kd_err *err)
{
    char s[32];
    snprintf(s, sizeof s, "%.17g", value);            // as many digits as bring the same number back
    return kd_frame_set_meta(f, key, s, err);
}

static int put_meta(const kd_trainer *t, kd_frame *f, const kd_dataset *d, kd_err *err)
{
    KD_TRY(kd_frame_set_meta(f, "kd", "checkpoint/1", err));
    KD_TRY(kd_frame_set_meta(f, "config", t->c->json, err));
    KD_TRY(put_int(f, "kd_step", t->step, err));
    KD_TRY(put_int(f, "kd_seen", t->seen, err));
    KD_TRY(put_int(f, "kd_lr_step", t->lr_step, err));
    KD_TRY(put_int(f, "kd_ema_step", t->ema_step, err));
    KD_TRY(put_int(f, "kd_opt_step", t->opt_step, err));
    KD_TRY(put_u64(f, "kd_seed", "%" PRIu64, t->o.seed, err));
    if (t->has_loss) KD_TRY(put_num(f, "kd_loss", t->ema_loss, err));
    if (t->o.gns) KD_TRY(put_num(f, "kd_gns_square", t->gns.square, err));
    if (t->o.gns) KD_TRY(put_num(f, "kd_gns_variance", t->gns.variance, err));
    if (t->o.gns) KD_TRY(put_num(f, "kd_gns_beta", t->gns.beta_product, err));
    KD_TRY(put_u64(f, "kd_data", "%016" PRIx64, d->hash, err));
    KD_TRY(put_int(f, "kd_batch", t->o.batch, err));
    KD_TRY(put_int(f, "kd_accum", t->o.accum, err));
    KD_TRY(put_num(f, "kd_lr", t->o.lr, err));
    return put_num(f, "kd_clip", t->o.clip, err);
}

// Lets the frame's tensors point into one array of the state, which is mapped for it.
static int put_part(const kd_trainer *t, kd_frame *f, const part *p, void **mapped, kd_err *err)
{
    if (!p->on_backend) return 0;
    KD_TRY(t->be->map(t->be, p->on_backend, (size_t)part_size(t, p) * sizeof(float), KD_MAP_READ, mapped, err));
    for (int i = 0; i < t->ps->n; i++) {
        const kd_param_info *q = &t->ps->p[i];
        kd_str name = {0};
        if (p->trained_only && q->group < 0) continue;
        if (!kd_str_printf(&name, err, "%s%s", p->prefix, q->name))
            kd_frame_add(f, name.p, KD_F32, q->shape, (float *)*mapped + q->offset, NULL, err);
        free(name.p);
        if (err->code) return err->code;
    }
    return 0;
}

int kd_trainer_save(kd_trainer *t, const char *path, const kd_dataset *d, kd_err *err)
{
    part p[PARTS];
    void *mapped[PARTS] = {0};
    kd_out *out = NULL;
    KD_TRY(kd_trainer_finish(t, err));
    kd_frame *f = kd_frame_new();

    parts_of(t, p);
    if (!f) kd_fail_memory(err, "a checkpoint");
    else put_meta(t, f, d, err);
    for (int k = 0; k < PARTS && !err->code; k++) put_part(t, f, &p[k], &mapped[k], err);
    if (err->code) goto done;
    if (kd_out_open(&out, path, true, err)) goto done;
    if (kd_safetensors_write(out, f, err)) goto done;
    kd_out_commit(out, err);
done:
    kd_out_close(out);
    kd_frame_free(f);
    for (int k = 0; k < PARTS; k++)
        if (mapped[k]) t->be->unmap(t->be, mapped[k], err);
    return err->code;
}

// Loading --------------------------------------------------------------------------------------------------------------

int kd_checkpoint_read(kd_frame **f, const char *path, kd_err *err)
{
    *f = NULL;
    KD_TRY(kd_safetensors_load(path, f, err));
    const char *kind = kd_frame_kind(*f);
    if (kind && !strcmp(kind, "checkpoint/1")) return 0;
    kd_fail(err, KD_EUSAGE, "%s: not a checkpoint (%s); --init starts from a model", path, kind ? kind : "of no kind");
    kd_frame_free(*f);
    *f = NULL;
    return err->code;
}

// Metadata that must be there and be a number, whole.
static int get_text(const kd_frame *f, const char *path, const char *key, const char **text, kd_err *err)
{
    *text = kd_frame_meta(f, key);
    return *text ? 0 : kd_fail(err, KD_EFORMAT, "%s: metadata %s is missing", path, key);
}

static int get_u64(const kd_frame *f, const char *path, const char *key, int base, uint64_t most, uint64_t *to, kd_err *err)
{
    const char *s;
    char *end;
    KD_TRY(get_text(f, path, key, &s, err));
    errno = 0;
    *to = strtoull(s, &end, base);
    if (errno || end == s || *end || *s == '-' || *to > most)
        return kd_fail(err, KD_EFORMAT, "%s: metadata %s: expected a number up to %" PRIu64 ", got '%s'", path, key, most, s);
    return 0;
}

static int get_int(const kd_frame *f, const char *path, const char *key, int64_t most, int64_t *to, kd_err *err)
{
    uint64_t v = 0;
    KD_TRY(get_u64(f, path, key, 10, (uint64_t)most, &v, err));
    *to = (int64_t)v;
    return 0;
}

static int get_num_from(const kd_frame *f, const char *path, const char *key, double least, double *to, kd_err *err)
{
    const char *s;
    char *end;
    KD_TRY(get_text(f, path, key, &s, err));
    *to = strtod(s, &end);
    if (end == s || *end || !isfinite(*to) || *to < least)
        return kd_fail(err, KD_EFORMAT, "%s: metadata %s: expected a number, got '%s'", path, key, s);
    return 0;
}

static int get_num(const kd_frame *f, const char *path, const char *key, double *to, kd_err *err)
{
    return get_num_from(f, path, key, 0, to, err);
}

int kd_checkpoint_setup(const kd_frame *f, const char *path, kd_config **c, kd_train_opts *o, kd_err *err)
{
    const char *json;
    char *warning = NULL;
    *o = (kd_train_opts){0};
    KD_TRY(get_u64(f, path, "kd_seed", 10, UINT64_MAX, &o->seed, err));
    KD_TRY(get_int(f, path, "kd_batch", 1 << 20, &o->batch, err));
    KD_TRY(get_int(f, path, "kd_accum", 1 << 20, &o->accum, err));
    KD_TRY(get_num(f, path, "kd_lr", &o->lr, err));
    KD_TRY(get_num(f, path, "kd_clip", &o->clip, err));
    o->gns = kd_frame_meta(f, "kd_gns_beta") != NULL;
    if (!o->batch || !o->accum) return kd_fail(err, KD_EFORMAT, "%s: a batch of no images", path);
    KD_TRY(get_text(f, path, "config", &json, err));
    kd_config_parse(c, json, path, true, &warning, err);
    free(warning);                                    // unknown keys are a later version's; the model is what its keys say
    return err->code;
}

enum { COUNT_BITS = 53 };                             // more than any run counts, and exact in the schedules' double

static int get_counts(kd_trainer *t, const kd_frame *f, const char *path, bool same_optimizer, kd_err *err)
{
    KD_TRY(get_int(f, path, "kd_step", KD_MAX_STEP, &t->step, err));
    KD_TRY(get_int(f, path, "kd_seen", KD_MAX_SEEN, &t->seen, err));
    KD_TRY(get_int(f, path, "kd_lr_step", (int64_t)1 << COUNT_BITS, &t->lr_step, err));
    KD_TRY(get_int(f, path, "kd_ema_step", (int64_t)1 << COUNT_BITS, &t->ema_step, err));
    KD_TRY(get_int(f, path, "kd_opt_step", (int64_t)1 << COUNT_BITS, &t->opt_step, err));
    if (!same_optimizer) t->opt_step = 0;
    if (t->o.gns && kd_frame_meta(f, "kd_gns_beta")) {
        KD_TRY(get_num_from(f, path, "kd_gns_square", -INFINITY, &t->gns.square, err));       // estimates: either sign
        KD_TRY(get_num_from(f, path, "kd_gns_variance", -INFINITY, &t->gns.variance, err));
        KD_TRY(get_num(f, path, "kd_gns_beta", &t->gns.beta_product, err));
    }
    t->has_loss = kd_frame_meta(f, "kd_loss") != NULL;
    return t->has_loss ? get_num_from(f, path, "kd_loss", -INFINITY, &t->ema_loss, err) : 0;      // a likelihood's: either sign
}

// Copies a parameter's tensor out of the frame, and frees it there.
static int get_tensor(float *to, const kd_param_info *q, const kd_frame *f, const char *path, const char *name, kd_err *err)
{
    kd_tensor *x = kd_frame_get(f, name);
    char want[128], got[128];
    if (!x) return kd_fail(err, KD_EFORMAT, "%s: tensor %s is missing", path, name);
    if (x->dtype != KD_F32 || !kd_shape_same(&x->shape, &q->shape))
        return kd_fail(err, KD_EFORMAT, "%s: tensor %s: expected F32 %s, got %s %s", path, name,
                       kd_shape_str(want, sizeof want, &q->shape), kd_dtype_name(x->dtype), kd_shape_str(got, sizeof got, &x->shape));
    memcpy(to, x->data, (size_t)q->count * sizeof(float));
    kd_tensor_release(x);
    return 0;
}

static int get_part(kd_trainer *t, const kd_frame *f, const char *path, const part *p, kd_err *err)
{
    void *host;
    KD_TRY(t->be->map(t->be, p->on_backend, (size_t)part_size(t, p) * sizeof(float), KD_MAP_READ | KD_MAP_WRITE, &host, err));
    for (int i = 0; i < t->ps->n && !err->code; i++) {
        const kd_param_info *q = &t->ps->p[i];
        kd_str name = {0};
        if (p->trained_only && q->group < 0) continue;
        if (!kd_str_printf(&name, err, "%s%s", p->prefix, q->name))
            get_tensor((float *)host + q->offset, q, f, path, name.p, err);
        free(name.p);
    }
    t->be->unmap(t->be, host, err);
    return err->code;
}

static int check_same(const kd_trainer *t, const kd_config *c, const kd_frame *f, const char *path, const kd_dataset *d, kd_err *err)
{
    uint64_t hash = 0;
    char *difference = kd_config_model_difference(t->c, c);
    if (difference) kd_fail(err, KD_EUSAGE, "%s: the model differs: %s", path, difference);
    free(difference);
    if (err->code || !d || !kd_frame_meta(f, "kd_data")) return err->code;    // imported: it goes on with what it is given
    if (get_u64(f, path, "kd_data", 16, UINT64_MAX, &hash, err)) return err->code;
    if (hash != d->hash)
        return kd_fail(err, KD_EUSAGE, "%s: was trained on other data (hash %016" PRIx64 ", now %016" PRIx64 " of %lld images); "
                       "--init starts a new run from a model", path, hash, d->hash, (long long)d->n);
    return 0;
}

// No tensor that the network and the optimizer of the file's own config do not have. (get_part finds the missing ones.)
static int check_count(const kd_trainer *t, const kd_config *c, const kd_frame *f, const char *path, kd_err *err)
{
    int trained = 0;
    for (int i = 0; i < t->ps->n; i++) trained += t->ps->p[i].group >= 0;
    const int want = 2 * t->ps->n + (kd_opt_has_m(c) + kd_opt_has_v(c)) * trained;
    return f->n == want ? 0 : kd_fail(err, KD_EFORMAT, "%s: expected %d tensors, got %d", path, want, f->n);
}

int kd_trainer_load(kd_trainer *t, const kd_frame *f, const char *path, const kd_dataset *d, kd_err *err)
{
    kd_config *c = NULL;
    kd_train_opts o;
    part p[PARTS];

    assert(!t->queued && !t->n_done && "a fresh trainer");
    parts_of(t, p);
    if (kd_checkpoint_setup(f, path, &c, &o, err)) goto done;
    if (check_same(t, c, f, path, d, err) || check_count(t, c, f, path, err)) goto done;
    const bool same_optimizer = c->sgd == t->c->sgd && kd_opt_has_m(c) == kd_opt_has_m(t->c);
    for (int k = 0; k < PARTS; k++)
        if (p[k].on_backend && (same_optimizer || !p[k].trained_only) && get_part(t, f, path, &p[k], err)) goto done;
    t->filled = NULL;
    get_counts(t, f, path, same_optimizer, err);
done:
    kd_config_free(c);
    return err->code;
}
