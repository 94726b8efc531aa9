// The register tiles of gemm.h: one function for each way that A and C are met, a case for each number of rows.
#include "cpu/kernels/gemm.h"

enum { BY_ROWS, BY_COLS, BY_LIST };         // how A lies: cs is 1, rs is 1, or row i begins at a + at[i]

// One tile: c[mr][NR] = (add ? c : 0) + a b. mr, how and add are constants where it is expanded.
static inline __attribute__((always_inline)) void gemm_tile_of(const int mr, const int how, const bool add, int64_t k, const float *a,
                                                               int64_t stride, const int64_t *at, const float *b, float *c, int64_t ldc)
{
    vf acc[MR][2];
#pragma GCC unroll 12
    for (int i = 0; i < mr; i++)
        acc[i][0] = acc[i][1] = (vf){ 0 };
    for (int64_t l = 0; l < k; l++) {
        const vf b0 = *(const vf *)(b + l * NR), b1 = *(const vf *)(b + l * NR + VW);
#pragma GCC unroll 12
        for (int i = 0; i < mr; i++) {
            const vf v = a[how == BY_ROWS ? i * stride + l : how == BY_COLS ? i + l * stride : at[i] + l] - (vf){ 0 };
            acc[i][0] += v * b0;
            acc[i][1] += v * b1;
        }
    }
#pragma GCC unroll 12
    for (int i = 0; i < mr; i++) {
        vf *const row = (vf *)(c + i * ldc);
        if (add) {
            acc[i][0] += row[0];
            acc[i][1] += row[1];
        }
        row[0] = acc[i][0];
        row[1] = acc[i][1];
    }
}

#define GEMM_CASE(m) case m: gemm_tile_of(m, how, add, k, a, stride, at, b, c, ldc); return;
#if defined KD_ISA_avx512
#define GEMM_CASES_PAST_4 GEMM_CASE(5) GEMM_CASE(6) GEMM_CASE(7) GEMM_CASE(8) GEMM_CASE(9) GEMM_CASE(10) GEMM_CASE(11) GEMM_CASE(12)
#elif defined KD_ISA_avx2
#define GEMM_CASES_PAST_4 GEMM_CASE(5) GEMM_CASE(6)
#else
#define GEMM_CASES_PAST_4
#endif
#define GEMM_TILE(name, how_, add_) \
    void name(int mr, int64_t k, const float *a, int64_t stride, const float *b, float *c, int64_t ldc) \
    { \
        enum { how = how_, add = add_ }; \
        const int64_t *const at = NULL; \
        switch (mr) { GEMM_CASE(1) GEMM_CASE(2) GEMM_CASE(3) GEMM_CASE(4) GEMM_CASES_PAST_4 } \
    }
#define GEMM_TILE_LIST(name, add_) \
    void name(int mr, int64_t k, const float *a, const int64_t *at, const float *b, float *c, int64_t ldc) \
    { \
        enum { how = BY_LIST, add = add_, stride = 0 }; \
        switch (mr) { GEMM_CASE(1) GEMM_CASE(2) GEMM_CASE(3) GEMM_CASE(4) GEMM_CASES_PAST_4 } \
    }
GEMM_TILE(gemm_tile_rows, BY_ROWS, false)
GEMM_TILE(gemm_tile_rows_add, BY_ROWS, true)
GEMM_TILE(gemm_tile_cols, BY_COLS, false)
GEMM_TILE(gemm_tile_cols_add, BY_COLS, true)
GEMM_TILE_LIST(gemm_tile_list, false)
GEMM_TILE_LIST(gemm_tile_list_add, true)

// One tile of either kind; c has room for all NR columns.
static void gemm_tile(int mr, bool add, int64_t k, const float *a, int64_t rs, int64_t cs, const float *b, float *c, int64_t ldc)
{
    if (cs == 1)
        (add ? gemm_tile_rows_add : gemm_tile_rows)(mr, k, a, rs, b, c, ldc);
    else
        (add ? gemm_tile_cols_add : gemm_tile_cols)(mr, k, a, cs, b, c, ldc);
}

void gemm_panels(int64_t m, int64_t n, int64_t k, bool add, const float *a, int64_t rs, int64_t cs,
                               const float *b, float *c, int64_t ldc)
{
    for (int64_t j = 0; j < n; j += NR, b += k * NR)
        for (int64_t i = 0; i < m; i += MR) {
            const int mr = (int)(m - i < MR ? m - i : MR);
            if (n - j >= NR) {
                gemm_tile(mr, add, k, a + i * rs, rs, cs, b, c + i * ldc + j, ldc);
                continue;
            }
            float t[MR * NR];
            gemm_tile(mr, false, k, a + i * rs, rs, cs, b, t, NR);
            for (int r = 0; r < mr; r++)
                for (int64_t q = 0; q < n - j; q++)
                    c[(i + r) * ldc + j + q] = (add ? c[(i + r) * ldc + j + q] : 0) + t[r * NR + q];
        }
}
