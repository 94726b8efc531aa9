// Dormand and Prince's 5(4) method for many small systems at once, each with steps of its own.
#ifndef KD_ODE_H
#define KD_ODE_H
#include "base/err.h"
#include <stdbool.h>
#include <stdint.h>

/// dy = f(t, y) of m systems, whose places 0, 1, ... are system [m] (rising): those that are not at the end yet.
/// t [m]; y, dy [m,size]
typedef int (*kd_ode_fn)(void *arg, int64_t m, const int64_t *system, const double *t, const double *y, double *dy, kd_err *err);

typedef struct kd_ode {
    kd_ode_fn f; void *arg;
    /// A step is accepted if the estimate of its error, elementwise over atol + rtol max(|y before|, |y after|), has an rms of
    /// at most 1 over the first `part` elements, and over the others.
    double rtol, atol;
    int64_t part;
    bool batch_norm;                   // one error and step for all systems: their rms together, as the peer's
    int64_t max_calls;                 // of f for a system
    const char *name;                  // of t, for messages; NULL: t
} kd_ode;

/// y [n,size] from t0 to t1 > t0, in place. calls: NULL or [n], how often f was asked for each.
/// First step: Hairer, Norsett, Wanner, "Solving ordinary differential equations I", II.4; the next one is
/// min(10, max(0.2, 0.9 error^(-1/5))) times as long, after an accepted step not shorter. Steps end at t1.
/// source  Dormand and Prince 1980, "A family of embedded Runge-Kutta formulae"
/// errors  KD_EFAIL if f is not finite or max_calls do not suffice; those of f
int kd_ode_dopri5(const kd_ode *o, double t0, double t1, int64_t n, int64_t size, double *y, int64_t *calls, kd_err *err);

#endif
