#include "tests/support/optimizer.h"
#include "op/program.h"

static int run(kd_program *p, const kd_opt_step *o, const double rates[KD_RATES], double clip[2], kd_err *err)
{
    KD_TRY(kd_program_set(p, o->rates, rates, err));
    KD_TRY(kd_program_run(p, err));
    return kd_program_get(p, o->clip, clip, err);
}

int optimizer_step(kd_backend *be, const kd_params *ps, const kd_config *c, const kd_opt_state *s, float *grad, double limit,
                   int64_t step, const double lr[4], double decay, double clip[2], kd_err *err)
{
    double rates[KD_RATES];
    kd_opt_step o;
    kd_program *p;
    kd_graph *g = kd_graph_new();
    if (!g) return kd_fail_memory(err, "a graph");
    kd_val *gradient = kd_param(g, "gradient", KD_SHAPE(ps->trained));
    kd_bind(gradient, grad);
    kd_opt_append(&o, g, ps, c, s, gradient, NULL, limit);
    kd_val *outs[] = { o.clip, o.done };
    KD_TRY(kd_program_new(&p, g, be, outs, 2, err));
    kd_opt_rates(rates, c, step, lr, decay);
    run(p, &o, rates, clip, err);
    kd_program_free(p);
    return err->code;
}
