// The model that a run ends with.
#include "formats/safetensors.h"
#include "train/trainer.h"
#include <stdio.h>

static int put_meta(const kd_trainer *t, const kd_dataset *d, const char *history, kd_frame *f, kd_err *err)
{
    char text[32];
    const char *names = kd_frame_meta(d->meta, "class_names"), *earlier = kd_frame_meta(d->meta, "kd_history");
    snprintf(text, sizeof text, "%lld", (long long)kd_trainer_steps(t));
    KD_TRY(kd_frame_set_meta(f, "kd_step", text, err));
    snprintf(text, sizeof text, "%lld", (long long)kd_trainer_seen(t));
    KD_TRY(kd_frame_set_meta(f, "kd_seen", text, err));
    snprintf(text, sizeof text, "%llu", (unsigned long long)kd_trainer_opts(t)->seed);
    KD_TRY(kd_frame_set_meta(f, "kd_seed", text, err));
    if (names && kd_trainer_config(t)->classes) KD_TRY(kd_frame_set_meta(f, "class_names", names, err));
    if (!history) return 0;
    if (earlier) KD_TRY(kd_frame_set_meta(f, "kd_history", earlier, err));
    return kd_frame_add_history(f, history, err);
}

int kd_trainer_result(kd_trainer *t, const kd_dataset *d, const char *history, const char *path, kd_err *err)
{
    kd_model *m = NULL;
    kd_frame *f = NULL;
    kd_out *out = NULL;
    if (kd_trainer_map_ema(t, &m, err) || kd_model_frame_lent(&f, m, err) || put_meta(t, d, history, f, err)) goto done;
    if (kd_out_open(&out, path, true, err) || kd_safetensors_write(out, f, err)) goto done;
    kd_out_commit(out, err);
done:
    kd_out_close(out);
    kd_frame_free(f);
    kd_trainer_unmap_ema(t, m, err);
    return err->code;
}
