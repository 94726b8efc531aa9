// "Did you mean": the known word at the least edit distance (Damerau 1964).
#include "base/opt.h"
#include <string.h>

enum { LONGEST = 64 };

// Insertions, deletions, changes and swaps of neighbours cost 1. Three rows of the usual table are enough.
static int distance(const char *a, int na, const char *b, int nb)
{
    int rows[3][LONGEST + 1];
    for (int j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *now = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && above2[j - 2] + 1 < best)
                best = above2[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[na % 3][nb];
}

const char *kd_nearest(const char *word, const char *const *known, int n)
{
    const int length = (int)strnlen(word, LONGEST + 1);
    const char *nearest = NULL;
    int best = length / 3 > 1 ? length / 3 + 1 : 2;           // found only below this
    if (length > LONGEST || length < 2)                       // any one-letter word is one change from any other
        return NULL;
    for (int i = 0; i < n; i++) {
        const int k = (int)strnlen(known[i], LONGEST + 1);
        const int d = k <= LONGEST ? distance(word, length, known[i], k) : best;
        if (d < best) {
            best = d;
            nearest = known[i];
        }
    }
    return nearest;
}
