// Constructors refuse inputs that do not fit, with a sentence that names the layer and the shapes.
#include "tests/op/test.h"
#include "op/unet.h"

typedef struct ins { kd_graph *g; kd_val *v3, *v4, *x34, *image, *index3, *rng; } ins;

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
static kd_val *dropout(ins *s) { return kd_dropout(s->g, s->x34, s->index3, s->rng, 1); }
static kd_val *dct2(ins *s) { return kd_dct2(s->g, s->x34, false); }
static kd_val *mse(ins *s) { return kd_mse(s->g, s->x34, s->x34, s->v3, s->v3); }
static kd_val *linear(ins *s) { return kd_linear(s->g, s->x34, s->image, NULL, NULL); }
static kd_val *self(ins *s, kd_attn a) { return kd_attention(s->g, s->image, NULL, NULL, a); }
static kd_val *attention(ins *s) { return self(s, (kd_attn){ .kind = KD_ATTN_WINDOW, .heads = 1, .size = 4 }); }
static kd_val *dropped(ins *s) { return self(s, (kd_attn){ .heads = 1, .dropout = .5 }); }
static kd_val *cross(ins *s)
{
    return kd_cross_attention(s->g, s->image, s->x34, NULL, NULL, NULL, (kd_attn){ .heads = 1 });
}
static kd_val *conv2d(ins *s) { return kd_conv2d(s->g, s->image, s->image, s->v4, NULL, KD_CONV_SAME(3)); }
static kd_val *conv2d_res(ins *s) { return kd_conv2d(s->g, s->image, s->image, NULL, s->image, (kd_conv){ 1, 1, 1 }); }
static kd_val *group_norm(ins *s) { return kd_group_norm(s->g, s->image, s->v3, NULL, NULL, 1, 1e-5, KD_ACT_NONE); }
static kd_val *groups(ins *s) { return kd_group_norm(s->g, s->image, NULL, NULL, NULL, 2, 1e-5, KD_ACT_NONE); }
static kd_val *layer_norm(ins *s) { return kd_layer_norm(s->g, s->x34, s->v4, s->v3, 1e-5); }
static kd_val *rope_table_v1(ins *s) { return kd_rope_table_v1(s->g, s->x34, s->x34, s->x34); }
static kd_val *qk_norm_v1(ins *s) { return kd_qk_norm_rope_v1(s->g, s->image, s->v3, s->image); }
static kd_val *resample(ins *s) { return kd_resample(s->g, s->x34, KD_FIR_UP); }
static kd_val *pool(ins *s) { return kd_pool(s->g, s->image, (kd_pooling){ true, 4, 1, 0 }); }
static kd_val *concat(ins *s) { return kd_concat(s->g, s->image, s->x34); }
static kd_val *slice(ins *s) { return kd_slice(s->g, s->x34, 2, 3); }
static kd_val *unshuffle(ins *s) { return kd_pixel_unshuffle(s->g, s->image, 2, 1); }
static kd_val *shuffle(ins *s) { return kd_pixel_shuffle(s->g, s->image, 2, 1); }
static kd_val *add_image(ins *s) { return kd_add_image(s->g, s->image, s->x34); }
static kd_val *image_mean(ins *s) { return kd_image_mean(s->g, s->v3); }
static kd_val *tokens(ins *s) { return kd_tokens(s->g, s->image, s->v3, s->x34); }
static kd_val *timestep(ins *s) { return kd_timestep_embedding(s->g, s->v3, 1, 100); }
static kd_val *gauss_nll(ins *s) { return kd_gauss_nll(s->g, s->x34, s->x34, s->v4); }
static kd_val *channels(ins *s) { return kd_dropout_channels(s->g, s->image, s->index3, s->rng, .5); }

static const struct { kd_val *(*make)(ins *s); const char *starts; } bad[] = {
    { rms_norm, "rms_norm net.layer: expected x [N,..,C] and s [C] or [N,C], got [3,4], [3]" },
    { rope_table, "rope_table net.layer: " }, { qk_norm_rope, "qk_norm_rope net.layer: " }, { embedding, "embedding net.layer: " },
    { fourier, "fourier net.layer: " }, { patch_merge, "patch_merge net.layer: " }, { patch_split, "patch_split net.layer: " },
    { lerp, "lerp net.layer: " }, { add, "add net.layer: expected a and b of one shape and type, got [3], [4]" },
    { row_mix, "row_mix net.layer: " }, { row_mix_half, "row_mix net.layer: " }, { dropout, "dropout net.layer: " },
    { dct2, "dct2 net.layer: " }, { mse, "mse net.layer: " }, { linear, "linear net.layer: " }, { attention, "attention net.layer: " },
    { dropped, "attention net.layer: " }, { cross, "cross_attention net.layer: " }, { conv2d, "conv2d net.layer: " },
    { conv2d_res, "conv2d net.layer: " }, { group_norm, "group_norm net.layer: " }, { groups, "group_norm net.layer: " },
    { layer_norm, "layer_norm net.layer: " }, { rope_table_v1, "rope_table_v1 net.layer: " },
    { qk_norm_v1, "qk_norm_rope_v1 net.layer: " }, { resample, "resample net.layer: " }, { pool, "pool net.layer: " },
    { concat, "concat net.layer: " }, { slice, "slice net.layer: " }, { unshuffle, "pixel_unshuffle net.layer: " },
    { shuffle, "pixel_shuffle net.layer: " }, { add_image, "add_image net.layer: " }, { image_mean, "image_sum net.layer: " },
    { tokens, "tokens net.layer: " },
    { timestep, "timestep net.layer: " }, { gauss_nll, "gauss_nll net.layer: " }, { channels, "dropout_channels net.layer: " } };

static void refused(t_run *t)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        kd_err err = { 0 };
        ins s = { .g = kd_graph_new() };
        s.v3 = kd_input(s.g, "v3", KD_F32, KD_SHAPE(3)), s.v4 = kd_input(s.g, "v4", KD_F32, KD_SHAPE(4));
        s.x34 = kd_input(s.g, "x34", KD_F32, KD_SHAPE(3, 4)), s.image = kd_input(s.g, "image", KD_F32, KD_SHAPE(2, 3, 3, 3));
        s.index3 = kd_input(s.g, "index3", KD_I64, KD_SHAPE(3)), s.rng = kd_input(s.g, "rng", KD_U64, KD_SHAPE(2));
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
