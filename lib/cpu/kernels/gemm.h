// The matrix product that linear layers and attention stand on: C = A B with B packed in panels of NR columns, by tiles of
// MR x NR that stay in registers. An element of C is one chain of fused multiply-adds over k in order, whatever its row,
// its tile or the number of rows: so a result does not depend on how the work is cut, on threads or on the batch.
// (A library's sgemm does not promise that: dnnl_sgemm gives a row other last bits in a call of another height.)
//
//            NR columns                     packed B: panel 0 | panel 1 | ...     each panel: K rows of NR floats
//         +-------------+                   A: element (i, k) at a[i * rs + k * cs]; rs or cs is 1
//   MR    | accumulators|   += a[i,k] * b[k,:]
//   rows  +-------------+
#ifndef KD_GEMM_H
#define KD_GEMM_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

// Registers: MR * 2 accumulators, 2 for a row of B, the rest for A. avx2 has 16, avx512 32, SSE2 16 (of 4 floats).
#if defined KD_ISA_avx512
enum { VW = 16, MR = 12 };
#elif defined KD_ISA_avx2
enum { VW = 8, MR = 6 };
#else
enum { VW = 4, MR = 4 };
#endif
enum { NR = 2 * VW };
typedef float vf __attribute__((vector_size(VW * 4), aligned(4), may_alias));

// One tile: c[mr][NR] = (add ? c : 0) + a b. mr, by_rows (cs is 1, else rs is) and add are constants where it is expanded.
static inline __attribute__((always_inline)) void gemm_tile_of(const int mr, const bool by_rows, const bool add, int64_t k, const float *a,
                                                               int64_t stride, const float *b, float *c, int64_t ldc)
{
    vf acc[MR][2];
#pragma GCC unroll 12
    for (int i = 0; i < mr; i++)
        acc[i][0] = acc[i][1] = (vf){ 0 };
    for (int64_t l = 0; l < k; l++) {
        const vf b0 = *(const vf *)(b + l * NR), b1 = *(const vf *)(b + l * NR + VW);
#pragma GCC unroll 12
        for (int i = 0; i < mr; i++) {
            const vf v = (by_rows ? a[i * stride + l] : a[i + l * stride]) - (vf){ 0 };
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

#define GEMM_CASE(m) case m: gemm_tile_of(m, by_rows, add, k, a, stride, b, c, ldc); return;
#if defined KD_ISA_avx512
#define GEMM_CASES_PAST_4 GEMM_CASE(5) GEMM_CASE(6) GEMM_CASE(7) GEMM_CASE(8) GEMM_CASE(9) GEMM_CASE(10) GEMM_CASE(11) GEMM_CASE(12)
#elif defined KD_ISA_avx2
#define GEMM_CASES_PAST_4 GEMM_CASE(5) GEMM_CASE(6)
#else
#define GEMM_CASES_PAST_4
#endif
#define GEMM_TILE(name, by_rows_, add_) \
    static inline void name(int mr, int64_t k, const float *a, int64_t stride, const float *b, float *c, int64_t ldc) \
    { \
        enum { by_rows = by_rows_, add = add_ }; \
        switch (mr) { GEMM_CASE(1) GEMM_CASE(2) GEMM_CASE(3) GEMM_CASE(4) GEMM_CASES_PAST_4 } \
    }
GEMM_TILE(gemm_tile_rows, true, false)
GEMM_TILE(gemm_tile_rows_add, true, true)
GEMM_TILE(gemm_tile_cols, false, false)
GEMM_TILE(gemm_tile_cols_add, false, true)

/// One tile of mr <= MR rows and NR columns; c has room for all NR.
static inline void gemm_tile(int mr, bool add, int64_t k, const float *a, int64_t rs, int64_t cs, const float *b, float *c, int64_t ldc)
{
    if (cs == 1)
        (add ? gemm_tile_rows_add : gemm_tile_rows)(mr, k, a, rs, b, c, ldc);
    else
        (add ? gemm_tile_cols_add : gemm_tile_cols)(mr, k, a, cs, b, c, ldc);
}

/// C [m, n] (+)= A B over panels; columns past n are computed in a buffer and not stored.
static inline void gemm_panels(int64_t m, int64_t n, int64_t k, bool add, const float *a, int64_t rs, int64_t cs,
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

static inline int64_t gemm_packed(int64_t k, int64_t n)              // floats of a packed B
{
    return (n + NR - 1) / NR * NR * k;
}

/// Panels of B = w^T, w [n, k] with row stride ldw: b[l][j] = w[j][l].
static inline void gemm_pack_t(float *to, const float *w, int64_t ldw, int64_t k, int64_t n)
{
    for (int64_t j = 0; j < n; j += NR, to += k * NR)
        for (int q = 0; q < NR; q++) {
            const float *const row = w + (j + q) * ldw;
            if (j + q < n)
                for (int64_t l = 0; l < k; l++)
                    to[l * NR + q] = row[l];
            else
                for (int64_t l = 0; l < k; l++)
                    to[l * NR + q] = 0;
        }
}

/// Panels of B = x, x [k, n] with row stride ldx.
static inline void gemm_pack(float *to, const float *x, int64_t ldx, int64_t k, int64_t n)
{
    for (int64_t j = 0; j < n; j += NR, to += k * NR)
        for (int64_t l = 0; l < k; l++) {
            if (n - j >= NR) {
                memcpy(to + l * NR, x + l * ldx + j, NR * sizeof(float));
                continue;
            }
            for (int64_t q = 0; q < NR; q++)
                to[l * NR + q] = j + q < n ? x[l * ldx + j + q] : 0;
        }
}

#endif
