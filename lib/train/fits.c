// Does a config fit the data? Found before the first step, with the numbers and what to do.
#include "train/trainer.h"
#include <stdio.h>

// "--size 32" or "--size 48x32" (width first, as kd-prep takes it)
static const char *size_option(char buf[64], int64_t h, int64_t w)
{
    if (h == w) snprintf(buf, 64, "--size %lld", (long long)w);
    else snprintf(buf, 64, "--size %lldx%lld", (long long)w, (long long)h);
    return buf;
}

int kd_train_fits(const kd_config *c, const kd_dataset *d, const char *name, kd_err *err)
{
    char size[64];
    if (d->h != c->size[0] || d->w != c->size[1] || d->c != c->channels)
        return kd_fail(err, KD_EUSAGE, "%s: images are %lldx%lldx%lld (height, width, channels), %s wants %lldx%lldx%lld: "
                       "kd-prep %s --channels %lld", name, (long long)d->h, (long long)d->w, (long long)d->c, c->path,
                       (long long)c->size[0], (long long)c->size[1], (long long)c->channels,
                       size_option(size, c->size[0], c->size[1]), (long long)c->channels);
    if (!c->classes) return 0;
    if (!d->label)
        return kd_fail(err, KD_EUSAGE, "%s: no labels, and %s has %lld classes: kd-prep --labels dir makes them of folder names",
                       name, c->path, (long long)c->classes);
    for (int64_t i = 0; i < d->n; i++)
        if (d->label[i] < 0 || d->label[i] >= c->classes)
            return kd_fail(err, KD_EUSAGE, "%s: image %lld: label %lld is not in 0..%lld (dataset.num_classes of %s)", name,
                           (long long)i, (long long)d->label[i], (long long)c->classes - 1, c->path);
    return 0;
}
