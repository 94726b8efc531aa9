// Constructors refuse inputs that do not fit, with a sentence that names the layer and the shapes.
#include "tests/op/test.h"

typedef struct ins { kd_graph *g; kd_val *v3, *v4, *x34, *image, *index3; } ins;

static kd_val *rms_norm(ins *s) { return kd_rms_norm(s->g, s->x34, s->v3, 0, 1e-6f); }
static kd_val *rope_table(ins *s) { return kd_rope_table(s->g, s->x34, s->x34); }
static kd_val *qk_norm_rope(ins *s) { return kd_qk_norm_rope(s->g, s->image, s->v3, s->image); }
static kd_val *embedding(ins *s) { return kd_embedding(s->g, s->x34, s->v3); }
static kd_val *fourier(ins *s) { return kd_fourier(s->g, s->x34, s->image); }
static kd_val *patch_merge(ins *s) { return kd_patch_merge(s->g, s->image, 2, 2); }
static kd_val *patch_split(ins *s) { return kd_patch_split(s->g, s->image, 2, 2); }
static kd_val *lerp(ins *s) { return kd_lerp(s->g, s->x34, s->x34, s->v3); }
static kd_val *add(ins *s) { return kd_add(s->g, s->v3, s->v4); }
static kd_val *row_mix(ins *s) { return kd_row_mix(s->g, s->x34, s->v4, NULL, NULL); }
static kd_val *row_mix_half(ins *s) { return kd_row_mix(s->g, s->x34, s->v3, s->x34, NULL); }
static kd_val *dropout(ins *s) { return kd_dropout(s->g, s->x34, s->index3, 1); }
static kd_val *dct2(ins *s) { return kd_dct2(s->g, s->x34, false); }
static kd_val *mse(ins *s) { return kd_mse(s->g, s->x34, s->x34, s->v3, s->v3); }
static kd_val *linear(ins *s) { return kd_linear(s->g, s->x34, s->image, NULL, NULL); }
static kd_val *attention(ins *s) { return kd_attention(s->g, s->image, (kd_attn){ .kind = KD_ATTN_WINDOW, .heads = 1, .size = 4 }); }

static const struct { kd_val *(*make)(ins *s); const char *starts; } bad[] = {
    { rms_norm, "rms_norm net.layer: expected x [N,..,C] and s [C] or [N,C], got [3,4], [3]" },
    { rope_table, "rope_table net.layer: " }, { qk_norm_rope, "qk_norm_rope net.layer: " }, { embedding, "embedding net.layer: " },
    { fourier, "fourier net.layer: " }, { patch_merge, "patch_merge net.layer: " }, { patch_split, "patch_split net.layer: " },
    { lerp, "lerp net.layer: " }, { add, "add net.layer: expected a and b of one shape, got [3], [4]" },
    { row_mix, "row_mix net.layer: " }, { row_mix_half, "row_mix net.layer: " }, { dropout, "dropout net.layer: " },
    { dct2, "dct2 net.layer: " }, { mse, "mse net.layer: " }, { linear, "linear net.layer: " }, { attention, "attention net.layer: " } };

static void refused(t_run *t)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kd_err err = { 0 };
        ins s = { .g = kd_graph_new() };
        s.v3 = kd_input(s.g, "v3", KD_F32, KD_SHAPE(3)), s.v4 = kd_input(s.g, "v4", KD_F32, KD_SHAPE(4));
        s.x34 = kd_input(s.g, "x34", KD_F32, KD_SHAPE(3, 4)), s.image = kd_input(s.g, "image", KD_F32, KD_SHAPE(2, 3, 3, 3));
        s.index3 = kd_input(s.g, "index3", KD_I64, KD_SHAPE(3));
        kd_scope_push(s.g, "net");
        kd_scope_push(s.g, "layer");
        t_check(t, !bad[i].make(&s), "%s was accepted", bad[i].starts);
        t_check(t, kd_graph_error(s.g, &err) == KD_EUSAGE, "%s is no error", bad[i].starts);
        t_check(t, !strncmp(err.msg, bad[i].starts, strlen(bad[i].starts)), "got: %s", err.msg);
        t_check(t, !kd_add(s.g, s.v3, s.v3), "the graph goes on after an error");
        kd_graph_free(s.g);
    }
}

KD_TEST_FN(shapes, refused)
