// Networks for features: which one a file holds, its weights, the file that we write of them.
#include "model/feature_private.h"
#include "base/memory.h"
#include "formats/safetensors.h"
#include "formats/torch.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = KD_ALIGN / sizeof(float) };    // elements

static const kd_feature_kind *const kinds[] = { &kd_feature_inception, &kd_feature_clip, &kd_feature_dinov2 };
enum { KINDS = sizeof kinds / sizeof *kinds };

void kd_feature_net_free(kd_feature_net *f)
{
    if (!f) return;
    kd_params_free(f->params);
    kd_free(f->w);
    kd_free(f);
}

void kd_feature_forward(kd_net *m, const kd_feature_net *f, kd_val *x, kd_feature_out *out)
{
    *out = (kd_feature_out){0};
    f->kind->forward(m, f, x, out);
}

// Tensors of a file -----------------------------------------------------------------------------------------------------

static bool starts(const char *s, const char *with) { return !strncmp(s, with, strlen(with)); }

static int find(const kd_raw *r, const char *name)
{
    const size_t n = strlen(r->prefix);
    for (int i = 0; r->frame && i < r->frame->n; i++)
        if (starts(r->frame->t[i].name, r->prefix) && !strcmp(r->frame->t[i].name + n, name)) return i;
    return -1;
}

bool kd_raw_has(const kd_raw *r, const char *name) { return find(r, name) >= 0; }

int64_t kd_raw_axis(const kd_raw *r, const char *name, int i)
{
    const int k = find(r, name);
    return k >= 0 && i < r->frame->t[k].shape.n ? r->frame->t[k].shape.d[i] : 0;
}

int kd_raw_get(kd_raw *r, const char *name, kd_shape shape, float *to, kd_err *err)
{
    const int64_t n = kd_shape_count(&shape);
    if (!r->frame) kd_inception_rule(name, shape, to);
    else {
        char want[128], got[128];
        const int i = find(r, name);
        if (i < 0) return kd_fail(err, KD_EUSAGE, "%s: no tensor %s%s: not the weights of %s", r->file, r->prefix, name, r->what);
        const kd_tensor *t = &r->frame->t[i];
        if (!kd_shape_same(&t->shape, &shape) || t->dtype > KD_BF16)
            return kd_fail(err, KD_EUSAGE, "%s: tensor %s: expected %s of a floating type, got %s %s", r->file, t->name,
                           kd_shape_str(want, sizeof want, &shape), kd_dtype_name(t->dtype), kd_shape_str(got, sizeof got, &t->shape));
        kd_convert(to, KD_F32, t->data, t->dtype, n);
        r->used[r->n_used++] = i;
    }
    kd_hash_add(r->hash, name, strlen(name) + 1);
    kd_hash_add(r->hash, to, (size_t)n * sizeof *to);
    return 0;
}

// Does a name end so, after a prefix of whole words? Sets the prefix.
static bool ends(const char *name, const char *end, char *prefix, size_t room)
{
    const size_t n = strlen(name), k = strlen(end);
    if (n < k || n - k >= room || strcmp(name + n - k, end) || (n > k && name[n - k - 1] != '.')) return false;
    if (prefix) snprintf(prefix, room, "%.*s", (int)(n - k), name);
    return true;
}

static const kd_feature_kind *kind_of(const kd_frame *f, char prefix[64])
{
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < f->n; i++)
            if (ends(f->t[i].name, kinds[k]->sign, prefix, 64)) return kinds[k];
    return NULL;
}

bool kd_feature_knows(const kd_frame *tensors)
{
    char prefix[64];
    return kind_of(tensors, prefix) != NULL;
}

static int fail_unknown(const kd_frame *f, const char *file, kd_err *err)
{
    static const struct { const char *tensor, *what; } near[] = {
        { "attnpool.positional_embedding", "a ResNet of CLIP: only its vision transformers are known" },
        { "vision_model.pre_layrnorm.weight", "CLIP under Hugging Face's names: take OpenAI's file, or open_clip's" },
        { "embeddings.patch_embeddings.projection.weight", "DINOv2 under Hugging Face's names: take Facebook's file" } };
    for (size_t k = 0; k < sizeof near / sizeof *near; k++)
        for (int i = 0; i < f->n; i++)
            if (ends(f->t[i].name, near[k].tensor, NULL, 64)) return kd_fail(err, KD_EUSAGE, "%s: %s", file, near[k].what);
    return kd_fail(err, KD_EUSAGE, "%s: not the weights of a network for features: Inception, CLIP's image encoder, DINOv2", file);
}

// Loading ---------------------------------------------------------------------------------------------------------------

static int declare(kd_feature_net *f, kd_err *err)
{
    kd_graph *g = kd_graph_new();
    f->params = kd_alloc(sizeof *f->params);
    if (!g || !f->params) {
        kd_graph_free(g);
        return kd_fail_memory(err, "a feature network");
    }
    kd_net m = { .g = g, .params = f->params, .declare = true };
    kd_feature_out out;
    kd_feature_forward(&m, f, kd_input(g, "x", KD_F32, KD_SHAPE(1, f->size, f->size, 3)), &out);
    int code = kd_graph_error(g, err);
    if (!code && (!out.pool || m.out_of_memory)) code = kd_fail_memory(err, "a feature network");
    kd_graph_free(g);
    for (int i = 0; i < f->params->n; i++) {
        kd_param_info *p = &f->params->p[i];
        p->offset = f->params->total;
        f->params->total += (p->count + ALIGN - 1) / ALIGN * ALIGN;
    }
    return code;
}

static int fill(kd_feature_net *f, kd_raw *r, kd_err *err)
{
    r->hash = kd_hash_new();
    r->used = kd_alloc((size_t)(r->frame ? r->frame->n + 1 : 1) * sizeof *r->used);
    f->w = kd_alloc((size_t)f->params->total * sizeof *f->w);
    if (!r->hash || !r->used || !f->w) return kd_fail_memory(err, "a feature network");
    KD_TRY(f->kind->fill(f, r, err));
    snprintf(f->hash, sizeof f->hash, "%016llx", (unsigned long long)kd_hash_get(r->hash));
    return 0;
}

// Under the prefix every tensor must be of use, or known to be of none. other: those under none.
static int check_names(const kd_feature_net *f, const kd_raw *r, int *other, kd_err *err)
{
    const size_t n = strlen(r->prefix);
    bool *used = kd_alloc((size_t)(r->frame->n + 1) * sizeof *used);
    int code = used ? 0 : kd_fail_memory(err, r->file);
    for (int i = 0; !code && i < r->n_used; i++) used[r->used[i]] = true;
    *other = 0;
    for (int i = 0; !code && i < r->frame->n; i++) {
        const char *name = r->frame->t[i].name;
        if (!starts(name, r->prefix)) ++*other;
        else if (!used[i] && !f->kind->passes(name + n))
            code = kd_fail(err, KD_EUSAGE, "%s: tensor %.100s: %s has none of this name", r->file, name, r->what);
    }
    kd_free(used);
    return code;
}

/// raw: of the kind. other: NULL, or set to the number of tensors outside its prefix.
static int make(kd_feature_net **out, const kd_feature_kind *kind, kd_raw *raw, int *other, kd_err *err)
{
    kd_feature_net *f = kd_alloc(sizeof *f);
    int dropped = 0;
    if (!f) return kd_fail_memory(err, "a feature network");
    f->kind = kind;
    raw->what = kind->what;
    int code = kind->shape(f, raw, err);
    if (!code) code = declare(f, err);
    if (!code) code = fill(f, raw, err);
    if (!code && raw->frame) code = check_names(f, raw, &dropped, err);
    if (other) *other = dropped;
    if (code) kd_feature_net_free(f);
    else *out = f;
    return code;
}

static void raw_free(kd_raw *r)
{
    kd_hash_free(r->hash);
    kd_free(r->used);
}

static int open_raw(kd_raw *r, const kd_feature_kind **kind, const kd_frame *f, const char *file, kd_err *err)
{
    const char *says = kd_frame_kind(f);
    *r = (kd_raw){ .file = file, .frame = f, .activation = kd_frame_meta(f, "activation") };
    if (says && strcmp(says, "encoder/1"))
        return kd_fail(err, KD_EFORMAT, "%s: expected a network for features, got %.64s", file, says);
    return (*kind = kind_of(f, r->prefix)) ? 0 : fail_unknown(f, file, err);
}

static int load_frame(kd_feature_net **f, const kd_frame *frame, const char *file, kd_err *err)
{
    kd_raw raw;
    const kd_feature_kind *kind;
    KD_TRY(open_raw(&raw, &kind, frame, file, err));
    const int code = make(f, kind, &raw, NULL, err);
    raw_free(&raw);
    return code;
}

int kd_feature_load(kd_feature_net **f, const char *path, kd_err *err)
{
    kd_in *in = NULL;
    kd_torch *torch = NULL;
    kd_frame *frame = NULL;
    const void *bytes;
    KD_TRY(kd_in_open(&in, path, err));
    const size_t n = kd_in_peek(in, &bytes, 64);
    if (kd_torch_knows(bytes, n)) kd_torch_read(&torch, in, err);
    else kd_safetensors_read_last(in, NULL, NULL, &frame, err);
    if (!err->code) load_frame(f, torch ? torch->tensors : frame, kd_in_name(in), err);
    kd_in_close(in);
    kd_torch_free(torch);
    kd_frame_free(frame);
    return err->code;
}

int kd_inception_random(kd_feature_net **f, kd_err *err)
{
    kd_raw rule = {0};
    const int code = make(f, &kd_feature_inception, &rule, NULL, err);
    if (!code) snprintf((*f)->name, sizeof (*f)->name, "random features (inception)");
    raw_free(&rule);
    return code;
}

// encoder/1 -------------------------------------------------------------------------------------------------------------

static int copy(kd_frame *to, const kd_feature_net *f, const kd_raw *r, kd_err *err)
{
    KD_TRY(kd_frame_set_meta(to, "kd", "encoder/1", err));
    KD_TRY(kd_frame_set_meta(to, "network", f->kind->name, err));
    if (f->kind == &kd_feature_clip)
        KD_TRY(kd_frame_set_meta(to, "activation", f->vit.quick_gelu ? "quick_gelu" : "gelu", err));
    for (int i = 0; i < r->n_used; i++) {
        const kd_tensor *t = &r->frame->t[r->used[i]];
        kd_tensor *copy;
        KD_TRY(kd_frame_add(to, t->name + strlen(r->prefix), t->dtype, t->shape, NULL, &copy, err));
        memcpy(copy->data, t->data, kd_tensor_bytes(t));
    }
    return 0;
}

static int say(char **said, const kd_feature_net *f, const char *file, int other, kd_err *err)
{
    kd_str text = {0};
    int code = kd_str_printf(&text, err, "%s: %s", file, f->name);
    if (!code && other) code = kd_str_printf(&text, err, "; %d tensors of other parts left out", other);
    *said = text.p;
    return code;
}

int kd_feature_frame(kd_frame **to, const kd_frame *tensors, const char *file, const char *activation, char **said, kd_err *err)
{
    kd_raw raw;
    kd_feature_net *f = NULL;
    const kd_feature_kind *kind = NULL;
    int other = 0;
    *to = NULL, *said = NULL;
    KD_TRY(open_raw(&raw, &kind, tensors, file, err));
    if (activation && kind != &kd_feature_clip)
        return kd_fail(err, KD_EUSAGE, "%s: --activation is for CLIP, this is %s", file, kind->what);
    raw.activation = activation;
    int code = make(&f, kind, &raw, &other, err);
    if (!code && !(*to = kd_frame_new())) code = kd_fail_memory(err, file);
    if (!code) code = copy(*to, f, &raw, err);
    if (!code) code = say(said, f, file, other, err);
    if (code) {
        kd_frame_free(*to);
        *to = NULL;
    }
    kd_feature_net_free(f);
    raw_free(&raw);
    return code;
}
