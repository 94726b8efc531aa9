// The networks that features are commonly taken from: their names, files, and where these come from.
#ifndef KD_FIND_H
#define KD_FIND_H
#include "model/feature_net.h"

/// What an option --features takes, as help and completion show it.
#define KD_FEATURES_TAKES "random|inception|clip-vit-b-32|clip-vit-b-16|clip-vit-l-14|dinov2-vits14|dinov2-vitb14|dinov2-vitl14|FILE"

/// features    "random" (kd_inception_random); another of these names, whose file is searched in the folder $KD_HOME: NAME.safetensors
///             (encoder/1), or the file as it is published; else a file of weights. NULL: inception
/// errors      KD_EUSAGE if there is no file, with which one, where it comes from, and the command that imports it; if it holds another
///             network than its name says; those of feature_net.h
int kd_features_find(kd_feature_net **f, const char *features, kd_err *err);

#endif
