// One micro-batch of training data: which images, how much noise, what is done to them. All of it is a function of the
// seed, the step and the images' positions, so a resumed run repeats it. The noise itself is drawn by the graph.
#ifndef KD_BATCH_H
#define KD_BATCH_H
#include "data/dataset.h"
#include "model/config.h"

/// Where to write a micro-batch of n images: memory of the caller's. What is NULL is not written.
typedef struct kd_batch {
    int64_t n, h, w, c;
    uint8_t *pixels;                   // [n,h,w,c]: the images as they are, for a config without augmentation
    float *x0;                         // [n,h,w,c]: the images at [-1, 1], augmented
    float *sigma;                      // [n]
    float *aug_cond;                   // [n,9]
    int64_t *class_cond;               // [n]; `classes` where the class was dropped
    int64_t *index;                    // [n]: positions, the images' numbers in the random streams
} kd_batch;

/// Fills it with the images at positions p .. p+n-1 of the endless shuffled pass over d.
/// step            optimizer steps done before this one
/// part, parts     which micro-batch of the step this is: the noise levels of a step are stratified over all of them; parts 0: not
void kd_batch_fill(const kd_batch *b, const kd_config *c, const kd_dataset *d, uint64_t seed, int64_t step, int64_t p,
                   int64_t part, int64_t parts);
#endif
