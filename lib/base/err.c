// Errors: the first one wins.
#include "base/err.h"
#include <stdarg.h>
#include <stdio.h>

void kd_plain(char *s)
{
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s, next = (unsigned char)s[1];
        if (c < 0x20 || c == 0x7f)
            *s = '?';
        else if (c == 0xc2 && next >= 0x80 && next < 0xa0)     // U+0080..9F: terminals obey these too
            s[0] = s[1] = '?';
    }
}

int kd_fail(kd_err *err, int code, const char *fmt, ...)
{
    if (err->code)
        return err->code;
    err->code = code;
    err->msg[0] = 0;
    if (code != KD_EPIPE) {
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
        kd_plain(err->msg);
    }
    return code;
}

int kd_fail_memory(kd_err *err, const char *what)
{
    return kd_fail(err, KD_EFAIL, "out of memory for %s", what);
}
