#include "metric/extract.h"
#include "base/memory.h"
#include "metric/find.h"
#include "op/program.h"
#include <string.h>

/// The network planned for n images: one for full batches, one for the last.
struct plan { int64_t n; kd_program *program; kd_val *x; kd_feature_out out; };

struct kd_extractor {
    kd_extract_options o;
    kd_feature_net *net;
    float *w;                              // the weights, on the backend
    struct plan plan[2];
    float *input, *pool, *spatial, *logit; // [batch, ..]; the last two NULL where not wanted
    int64_t *index;
    int64_t waiting, count;                // images in `input`; since kd_extract_begin
    bool numbered;                         // those in `input` have an index
    kd_collect *set;
};

// The network -----------------------------------------------------------------------------------------------------------

int kd_extractor_open(kd_extractor **out, const kd_extract_options *o, kd_err *err)
{
    kd_extractor *x = kd_alloc(sizeof *x);
    if (!x) return kd_fail_memory(err, "features");
    x->o = *o;
    int code = kd_features_find(&x->net, o->features, err);
    const size_t weights = code ? 0 : (size_t)x->net->params->total * sizeof(float), n = (size_t)o->batch;
    if (!code) code = kd_backend_lend(o->be, x->net->w, weights, (void **)&x->w, err);
    if (!code) {
        if (!x->o.resize) x->o.resize = kd_resize_usual(x->net);
        x->o.spatial = o->spatial && x->net->spatial, x->o.logits = o->logits && x->net->classes;
        x->input = kd_alloc(n * (size_t)(x->net->size * x->net->size * 3) * sizeof(float));
        x->pool = kd_alloc(n * (size_t)x->net->d * sizeof(float));
        x->spatial = x->o.spatial ? kd_alloc(n * (size_t)x->net->spatial * sizeof(float)) : NULL;
        x->logit = x->o.logits ? kd_alloc(n * (size_t)x->net->classes * sizeof(float)) : NULL;
        x->index = kd_alloc(n * sizeof *x->index);
        if (!x->input || !x->pool || (x->o.spatial && !x->spatial) || (x->o.logits && !x->logit) || !x->index)
            code = kd_fail_memory(err, "features");
    }
    if (code) kd_extractor_close(x);
    else *out = x;
    return code;
}

void kd_extractor_close(kd_extractor *x)
{
    if (!x) return;
    for (int i = 0; i < 2; i++) kd_program_free(x->plan[i].program);
    if (x->w) kd_backend_return(x->o.be, x->net->w, x->w);
    kd_feature_net_free(x->net);
    kd_collect_free(x->set);
    kd_free(x->input), kd_free(x->pool), kd_free(x->spatial), kd_free(x->logit), kd_free(x->index);
    kd_free(x);
}

static int plan_make(struct plan *p, const kd_extractor *x, int64_t n, kd_err *err)
{
    const kd_params *ps = x->net->params;
    kd_program_free(p->program);
    *p = (struct plan){ .n = n };
    kd_graph *g = kd_graph_new();
    kd_net m = { .g = g, .params = x->net->params, .leaf = kd_alloc((size_t)ps->n * sizeof *m.leaf) };
    kd_val *outs[3];
    int k = 0, code = g && m.leaf ? 0 : kd_fail_memory(err, "a feature network");
    if (!code) {
        p->x = kd_feed(g, "x", KD_F32, KD_SHAPE(n, x->net->size, x->net->size, 3));
        kd_feature_forward(&m, x->net, p->x, &p->out);
        code = kd_graph_error(g, err);
    }
    if (code) {
        kd_graph_free(g);
        kd_free(m.leaf);
        return code;
    }
    outs[k++] = p->out.pool;
    if (x->spatial) outs[k++] = p->out.spatial;
    if (x->logit) outs[k++] = p->out.logits;
    for (int i = 0; i < ps->n; i++)
        if (m.leaf[i]) kd_bind(m.leaf[i], x->w + ps->p[i].offset);
    kd_free(m.leaf);
    return kd_program_new(&p->program, g, x->o.be, outs, k, err);        // takes the graph
}

// Runs the network on what waits.
static int flush(kd_extractor *x, kd_err *err)
{
    if (!x->waiting) return 0;
    struct plan *p = &x->plan[x->waiting != x->o.batch];
    if (p->n != x->waiting) KD_TRY(plan_make(p, x, x->waiting, err));
    KD_TRY(kd_program_set(p->program, p->x, x->input, err));
    KD_TRY(kd_program_run(p->program, err));
    KD_TRY(kd_program_get(p->program, p->out.pool, x->pool, err));
    if (x->spatial) KD_TRY(kd_program_get(p->program, p->out.spatial, x->spatial, err));
    if (x->logit) KD_TRY(kd_program_get(p->program, p->out.logits, x->logit, err));
    const kd_vectors v = { x->pool, x->spatial, x->logit, x->numbered ? x->index : NULL };
    KD_TRY(kd_collect_add(x->set, x->waiting, &v, err));
    x->waiting = 0;
    return 0;
}

// A set --------------------------------------------------------------------------------------------------------------------

int kd_extract_begin(kd_extractor *x, kd_err *err)
{
    kd_collect_free(x->set);
    x->set = NULL;
    x->waiting = x->count = 0;
    x->numbered = true;
    return kd_collect_new(&x->set, x->net->d, x->spatial ? x->net->spatial : 0, x->logit ? x->net->classes : 0, x->o.keep, err);
}

int kd_extract_add(kd_extractor *x, const kd_pictures *p, kd_err *err)
{
    const int64_t each = x->net->size * x->net->size * 3;
    const size_t bytes = (size_t)(p->h * p->w * p->c) * kd_dtype_size(p->dtype);
    x->numbered = x->numbered && p->index;
    for (int64_t at = 0; at < p->n;) {
        const int64_t room = x->o.batch - x->waiting, n = p->n - at < room ? p->n - at : room;
        kd_pictures part = *p;
        part.n = n, part.image = (const char *)p->image + (size_t)at * bytes;
        KD_TRY(kd_extract_prepare(x->input + x->waiting * each, &part, x->net, x->o.resize, err));
        if (p->index) memcpy(x->index + x->waiting, p->index + at, (size_t)n * sizeof *x->index);
        x->waiting += n, x->count += n, at += n;
        if (x->waiting == x->o.batch) KD_TRY(flush(x, err));
    }
    return 0;
}

kd_made kd_extractor_made(const kd_extractor *x, const kd_made *images)
{
    kd_made made = images ? *images : (kd_made){0};
    made.extractor = x->net->name, made.extractor_hash = x->net->hash, made.resizer = kd_resize_name(x->o.resize);
    return made;
}

int64_t kd_extract_count(const kd_extractor *x) { return x->count; }

int kd_extract_end(kd_set **s, kd_extractor *x, const char *name, const kd_made *images, kd_err *err)
{
    const kd_made made = kd_extractor_made(x, images);
    KD_TRY(flush(x, err));
    return kd_collect_finish(s, x->set, name, &made, err);
}
