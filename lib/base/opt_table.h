// Private to opt.c and opt_help.c.
#ifndef KD_OPT_TABLE_H
#define KD_OPT_TABLE_H
#include "base/opt.h"

static inline bool option_takes_dash(const kd_opt *o) { return o->type != KD_OPT_T_ARG && o->type != KD_OPT_T_ARGS; }

// Both print to stdout. own: the tool's table; shared: the common options; without help text an option is hidden.
void option_help(const char *tool, const char *summary, const kd_opt *own, const kd_opt *shared);
void option_complete(const char *tool, const char *summary, const kd_opt *own, const kd_opt *shared);
#endif
