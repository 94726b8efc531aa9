// Features of images as they come, in one pass.
#include "base/memory.h"
#include "metric/set_private.h"

struct kd_collect {
    kd_moments *pool, *spatial;            // spatial NULL: none
    kd_spool *feature, *logit, *index;     // feature NULL: only moments; index NULL: the images have none
    int64_t n, d, e, classes;
};

int kd_collect_new(kd_collect **out, int64_t d, int64_t e, int64_t classes, bool keep, kd_err *err)
{
    kd_collect *c = kd_alloc(sizeof *c);
    if (!c) return kd_fail_memory(err, "features");
    *c = (kd_collect){ .d = d, .e = e, .classes = classes };
    int code = kd_moments_new(&c->pool, d, err);
    if (!code && e) code = kd_moments_new(&c->spatial, e, err);
    if (!code && keep) code = kd_spool_new(&c->feature, err);
    if (!code && classes) code = kd_spool_new(&c->logit, err);
    if (code) kd_collect_free(c);
    else *out = c;
    return code;
}

void kd_collect_free(kd_collect *c)
{
    if (!c) return;
    kd_moments_free(c->pool), kd_moments_free(c->spatial);
    kd_spool_free(c->feature), kd_spool_free(c->logit), kd_spool_free(c->index);
    kd_free(c);
}

// An index only counts if all images have one.
static int add_index(kd_collect *c, int64_t n, const int64_t *index, kd_err *err)
{
    if (!c->n && index) KD_TRY(kd_spool_new(&c->index, err));
    if (c->index && index) return kd_spool_add(c->index, index, (size_t)n * sizeof *index, err);
    kd_spool_free(c->index);
    c->index = NULL;
    return 0;
}

int kd_collect_add(kd_collect *c, int64_t n, const kd_vectors *v, kd_err *err)
{
    if (!n) return 0;
    KD_TRY(kd_moments_add(c->pool, v->feature, n, err));
    if (c->spatial) KD_TRY(kd_moments_add(c->spatial, v->spatial, n, err));
    if (c->feature) KD_TRY(kd_spool_add(c->feature, v->feature, (size_t)(n * c->d) * sizeof(float), err));
    if (c->logit) KD_TRY(kd_spool_add(c->logit, v->logit, (size_t)(n * c->classes) * sizeof(float), err));
    KD_TRY(add_index(c, n, v->index, err));
    c->n += n;
    return 0;
}

static int moments(kd_set *s, kd_gauss *g, int first, kd_moments *m, int64_t d, kd_err *err)
{
    KD_TRY(kd_set_room(s, first, d, err));
    *g = (kd_gauss){ s->n, d, s->memory->moments[first], s->memory->moments[first + 1] };
    return kd_moments_get(m, s->memory->moments[first], s->memory->moments[first + 1], err);
}

static int rows(kd_matrix *r, kd_spool *spool, int64_t n, int64_t d, kd_err *err)
{
    const void *bytes;
    KD_TRY(kd_spool_map(spool, &bytes, err));
    *r = (kd_matrix){ bytes, n, d, NULL };
    return 0;
}

static int finish(kd_set *s, kd_collect *c, const kd_made *made, kd_err *err)
{
    struct kd_set_memory *m = s->memory;
    s->n = c->n;
    if (s->n < 2)
        return kd_fail(err, KD_EUSAGE, "%s: %lld image%s: at least 2 are needed", s->name, (long long)s->n, s->n == 1 ? "" : "s");
    m->feature = c->feature, m->logit = c->logit, m->index = c->index;
    c->feature = c->logit = c->index = NULL;
    KD_TRY(kd_set_copy_made(s, made, err));
    KD_TRY(moments(s, &s->pool, 0, c->pool, c->d, err));
    if (c->spatial) KD_TRY(moments(s, &s->spatial, 2, c->spatial, c->e, err));
    if (m->feature) KD_TRY(rows(&s->feature, m->feature, c->n, c->d, err));
    if (m->logit) KD_TRY(rows(&s->logit, m->logit, c->n, c->classes, err));
    const void *index = NULL;
    if (m->index) KD_TRY(kd_spool_map(m->index, &index, err));
    s->index = index;
    return kd_set_order(s, index, err);
}

int kd_collect_finish(kd_set **out, kd_collect *c, const char *name, const kd_made *made, kd_err *err)
{
    kd_set *s = NULL;
    KD_TRY(kd_set_new(&s, name, err));
    const int code = finish(s, c, made, err);
    if (code) kd_set_free(s);
    else *out = s;
    return code;
}
