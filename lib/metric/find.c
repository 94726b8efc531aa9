#include "metric/find.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OPENAI "https://openaipublic.azureedge.net/clip/models/"
#define FACEBOOK "https://dl.fbaipublicfiles.com/dinov2/"

/// published: its address ends in the file's name.
static const struct known { const char *name, *published; } known[] = {
    { "inception", "https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/pt_inception-2015-12-05-6726825d.pth" },
    { "clip-vit-b-32", OPENAI "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af/ViT-B-32.pt" },
    { "clip-vit-b-16", OPENAI "5806e77cd80f8b59890b7e101eabd078d9fb84e6937f9e85e4ecb61988df416f/ViT-B-16.pt" },
    { "clip-vit-l-14", OPENAI "b8cca3fd41ae0c99ba7e8951adf17d267cdb84cd88be6f7c2e0eca1737a03836/ViT-L-14.pt" },
    { "dinov2-vits14", FACEBOOK "dinov2_vits14/dinov2_vits14_pretrain.pth" },
    { "dinov2-vitb14", FACEBOOK "dinov2_vitb14/dinov2_vitb14_pretrain.pth" },
    { "dinov2-vitl14", FACEBOOK "dinov2_vitl14/dinov2_vitl14_pretrain.pth" } };

static int fail_missing(const struct known *k, const char *home, const char *file, kd_err *err)
{
    const char *folder = home && *home ? home : "$KD_HOME";
    const bool inception = k == known;
    return kd_fail(err, KD_EUSAGE, "no weights of %s in %s: get %s into it, or kd-init --from %s -o %s/%s.safetensors, "
                   "or --features FILE%s", inception ? "the feature network" : k->name,
                   home && *home ? folder : "the folder that KD_HOME names", k->published, file, folder, k->name,
                   inception ? " (--features random needs none)" : "");
}

static int load_known(kd_feature_net **f, const struct known *k, kd_err *err)
{
    const char *home = getenv("KD_HOME"), *file = strrchr(k->published, '/') + 1;
    kd_str path = {0};
    bool there = false;
    int code = 0;
    for (int i = 0; home && *home && !code && !there && i < 2; i++) {
        path.n = 0;
        code = i ? kd_str_printf(&path, err, "%s/%s", home, file) : kd_str_printf(&path, err, "%s/%s.safetensors", home, k->name);
        there = !code && !access(path.p, F_OK);
    }
    if (!code) code = there ? kd_feature_load(f, path.p, err) : fail_missing(k, home, file, err);
    if (!code && strcmp((*f)->name, k->name)) {
        code = kd_fail(err, KD_EUSAGE, "%s: holds %s", path.p, (*f)->name);
        kd_feature_net_free(*f);
        *f = NULL;
    }
    free(path.p);
    return code;
}

int kd_features_find(kd_feature_net **f, const char *features, kd_err *err)
{
    if (!features) features = "inception";
    if (!strcmp(features, "random")) return kd_inception_random(f, err);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(features, known[i].name)) return load_known(f, &known[i], err);
    return kd_feature_load(f, features, err);
}
