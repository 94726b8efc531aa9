#include "train/gns.h"
#include <math.h>

kd_gns kd_gns_start(double beta, double eps) { return (kd_gns){ .beta = beta, .eps = eps, .beta_product = 1 }; }

void kd_gns_update(kd_gns *g, double small, double big, double n_small, double n_big)
{
    const double square = (n_big * big - n_small * small) / (n_big - n_small);
    const double variance = (small - big) / (1 / n_small - 1 / n_big);
    g->square = g->beta * g->square + (1 - g->beta) * square;
    g->variance = g->beta * g->variance + (1 - g->beta) * variance;
    g->beta_product *= g->beta;
}

double kd_gns_value(const kd_gns *g) { return fmax(g->variance, g->eps) / fmax(g->square, g->eps); }

void kd_gns_averages(const kd_gns *g, double *square, double *variance)
{
    *square = g->square / (1 - g->beta_product);
    *variance = g->variance / (1 - g->beta_product);
}
