// Models for k-diffusion itself: what it can use, in the words of its converter. Peer: convert_for_inference.py, config.py.
#include "model/model.h"
#include <string.h>

/// Its config reader ignores keys that it does not know, model.wrapper among them: without this rule it would draw noise, and say nothing.
static int check(const kd_config *c, kd_err *err)
{
    if (c->type == KD_MODEL_GUIDED || c->type == KD_MODEL_TOY_MIXTURE)
        return kd_fail(err, KD_EUSAGE, "%s: model.type: k-diffusion has no network %s", c->path, kd_model_type_names[c->type]);
    if (c->wrapper != KD_WRAP_KARRAS)
        return kd_fail(err, KD_EUSAGE, "%s: model.wrapper: k-diffusion's scripts take every network as a karras denoiser, which this "
                       "one, %s, is not", c->path, kd_wrapper_names[c->wrapper]);
    return 0;
}

int kd_model_frame_kdiff(kd_frame **f, const kd_model *m, kd_dtype dtype, kd_err *err)
{
    *f = NULL;
    KD_TRY(check(m->config, err));
    KD_TRY(kd_model_frame(f, m, dtype, err));
    for (int i = (*f)->n_meta; i-- > 0 && !err->code;)
        if (strcmp((*f)->key[i], "config"))
            kd_frame_set_meta(*f, (*f)->key[i], NULL, err);
    if (err->code) {
        kd_frame_free(*f);
        *f = NULL;
    }
    return err->code;
}
