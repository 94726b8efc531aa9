#include "diffusion/cond.h"

static const float *from(const float *all, int64_t at) { return all ? all + at : NULL; }

kd_cond kd_cond_at(const kd_call_inputs *in, const kd_call_shape *s, int64_t k)
{
    return (kd_cond){ .class_cond = in->class_cond ? in->class_cond + k : NULL,
                      .aug_cond = from(in->aug_cond, 9 * k),
                      .mapping_cond = from(in->mapping_cond, k * s->mapping_cond_dim),
                      .unet_cond = from(in->unet_cond, k * s->h * s->w * s->unet_cond_dim),
                      .cross_len = in->cross_len,
                      .cross_cond = from(in->cross_cond, k * in->cross_len * s->cross_cond_dim),
                      .cross_padding = from(in->cross_padding, k * in->cross_len) };
}
