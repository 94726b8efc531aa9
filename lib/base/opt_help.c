// --help and --complete, from the option table.
#include "base/opt_table.h"
#include <stdio.h>
#include <string.h>

enum { COLUMN = 26 };

static const char *takes(const kd_opt *o)
{
    return o->type == KD_OPT_T_CHOICE ? o->choices : o->metavar ? o->metavar : "";
}

// "  -n, --count N" or "  MODEL", the help text behind it in a column, long choices on a line of their own.
static void print_entry(const kd_opt *o)
{
    char left[256];
    const char *gap = *takes(o) ? " " : "";
    if (!option_takes_dash(o))
        snprintf(left, sizeof left, "  %s", o->name);
    else if (o->letter)
        snprintf(left, sizeof left, "  -%c, --%s%s%s", o->letter, o->name, gap, takes(o));
    else
        snprintf(left, sizeof left, "      --%s%s%s", o->name, gap, takes(o));
    printf("%s", left);
    int at = (int)strlen(left);
    if (at > COLUMN - 2) {
        putchar('\n');
        at = 0;
    }
    printf("%*s%s\n", COLUMN - at, "", o->help);
}

static void print_group(const char *title, const kd_opt *o, bool dashed)
{
    bool any = false;
    for (; o->type; o++) {
        if (option_takes_dash(o) != dashed || !o->help)
            continue;
        if (!any)
            printf("\n%s\n", title);
        any = true;
        print_entry(o);
    }
}

void option_help(const char *tool, const char *summary, const kd_opt *own, const kd_opt *shared)
{
    printf("Usage: %s [OPTION...]", tool);
    for (const kd_opt *o = own; o->type; o++)
        if (!option_takes_dash(o))
            printf(o->lo >= 1 ? " %s%s" : " [%s%s]", o->name, o->type == KD_OPT_T_ARGS ? "..." : "");
    printf("\n%s\n", summary);
    print_group("Arguments", own, false);
    print_group("Options", own, true);
    print_group("Common options", shared, true);
}

static void complete_group(const kd_opt *o)
{
    for (; o->type; o++) {
        if (!option_takes_dash(o) || !o->help)
            continue;
        printf("--%s\t%s\n", o->name, takes(o));
        if (o->letter)
            printf("-%c\t%s\n", o->letter, takes(o));
    }
}

void option_complete(const char *tool, const char *summary, const kd_opt *own, const kd_opt *shared)
{
    (void)tool, (void)summary;
    complete_group(own);
    complete_group(shared);
}
