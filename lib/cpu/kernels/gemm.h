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
#include "cpu/kernel.h"
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

/// One tile of mr <= MR rows and NR columns: c (+)= a b (gemm.c). rows: cs is 1 and stride is rs; cols: rs is 1 and stride is cs.
void KD_ISA_NAME(gemm_tile_rows)(int mr, int64_t k, const float *a, int64_t stride, const float *b, float *c, int64_t ldc);
void KD_ISA_NAME(gemm_tile_rows_add)(int mr, int64_t k, const float *a, int64_t stride, const float *b, float *c, int64_t ldc);
void KD_ISA_NAME(gemm_tile_cols)(int mr, int64_t k, const float *a, int64_t stride, const float *b, float *c, int64_t ldc);
void KD_ISA_NAME(gemm_tile_cols_add)(int mr, int64_t k, const float *a, int64_t stride, const float *b, float *c, int64_t ldc);
/// The same for rows that lie anywhere: row i of A begins at a + at[i].
void KD_ISA_NAME(gemm_tile_list)(int mr, int64_t k, const float *a, const int64_t *at, const float *b, float *c, int64_t ldc);
void KD_ISA_NAME(gemm_tile_list_add)(int mr, int64_t k, const float *a, const int64_t *at, const float *b, float *c, int64_t ldc);
#define gemm_tile_list KD_ISA_NAME(gemm_tile_list)
#define gemm_tile_list_add KD_ISA_NAME(gemm_tile_list_add)
#define gemm_tile_rows KD_ISA_NAME(gemm_tile_rows)
#define gemm_tile_rows_add KD_ISA_NAME(gemm_tile_rows_add)
#define gemm_tile_cols KD_ISA_NAME(gemm_tile_cols)
#define gemm_tile_cols_add KD_ISA_NAME(gemm_tile_cols_add)

/// C [m, n] (+)= A B over panels; columns past n are computed in a buffer and not stored.
void KD_ISA_NAME(gemm_panels)(int64_t m, int64_t n, int64_t k, bool add, const float *a, int64_t rs, int64_t cs,
                              const float *b, float *c, int64_t ldc);
#define gemm_panels KD_ISA_NAME(gemm_panels)

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
