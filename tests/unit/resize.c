// Resizing, cropping: to the grey level what Pillow gives (tests/golden/prep).
#include "data/codec.h"
#include "formats/safetensors.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define OK(call) do { kd_err err_ = {0}; if (call) fail_msg("%s: %s", #call, err_.msg); } while (0)
#define E &err_

static kd_frame *prep, *more;

static int load(void **state)
{
    (void)state;
    OK(kd_safetensors_load("tests/golden/prep/prep.safetensors", &prep, E));
    OK(kd_safetensors_load("tests/golden/prep/box_bilinear.safetensors", &more, E));
    return 0;
}
static int unload(void **state)
{
    (void)state;
    kd_frame_free(prep), kd_frame_free(more);
    return 0;
}

static kd_picture picture_of(const kd_tensor *t)
{
    kd_picture p = {0};
    const int c = t->shape.n == 3 ? (int)t->shape.d[2] : 1;
    OK(kd_picture_alloc(&p, t->shape.d[0], t->shape.d[1], c, E));
    memcpy(p.p, t->data, kd_tensor_bytes(t));
    return p;
}

static void assert_same(const kd_picture *p, const kd_tensor *want)
{
    assert_int_equal(p->h, want->shape.d[0]);
    assert_int_equal(p->w, want->shape.d[1]);
    const uint8_t *w = want->data;
    for (int64_t i = 0; i < p->h * p->w * p->c; i++)
        if (p->p[i] != w[i]) fail_msg("%s: value %lld is %d, expected %d", want->name, (long long)i, p->p[i], w[i]);
}

static kd_filter filter_of(const char *name)
{
    return !strcmp(name, "bicubic") ? KD_BICUBIC : !strcmp(name, "lanczos") ? KD_LANCZOS : !strcmp(name, "box") ? KD_BOX : KD_BILINEAR;
}

// Every tensor FILE.FILTER_SIZE of the peer, from FILE.rgb: resized to cover, cropped.
static void golden_fit(void **state)
{
    (void)state;
    int n = 0;
    for (int i = 0; i < prep->n; i++) {
        char file[64], filter[16], rgb[80];
        const kd_tensor *want = &prep->t[i];
        const char *dot = strrchr(want->name, '.');
        int size;
        if (sscanf(dot, ".%15[a-z]%d", filter, &size) != 2) continue;
        if (strcmp(filter, "bicubic") && strcmp(filter, "lanczos")) continue;
        snprintf(file, sizeof file, "%.*s", (int)(dot - want->name), want->name);
        snprintf(rgb, sizeof rgb, "%s.rgb", file);
        kd_picture p = picture_of(kd_frame_get(prep, rgb));
        OK(kd_picture_fit(&p, size, size, filter_of(filter), true, E));
        assert_same(&p, want);
        kd_picture_free(&p);
        n++;
    }
    assert_int_equal(n, 76);
}

// FILE.FILTER.WxH: stretched, smaller and larger, all filters.
static void golden_stretch(void **state)
{
    (void)state;
    int n = 0;
    for (int i = 0; i < more->n; i++) {
        char stem[64], filter[16], rgb[80];
        int w, h;
        const kd_tensor *want = &more->t[i];
        if (sscanf(want->name, "%60[a-z0-9_].png.%15[a-z].%dx%d", stem, filter, &w, &h) != 4) continue;
        snprintf(rgb, sizeof rgb, "%s.png.rgb", stem);
        kd_picture p = picture_of(kd_frame_get(strcmp(stem, "tall_18x91") ? prep : more, rgb));
        OK(kd_picture_fit(&p, h, w, filter_of(filter), false, E));
        assert_same(&p, want);
        kd_picture_free(&p);
        n++;
    }
    assert_int_equal(n, 64);
}

// Grey is resized as each channel of colour is.
static void grey(void **state)
{
    (void)state;
    const kd_tensor *rgb = kd_frame_get(prep, "disc_70x91.png.rgb"), *want = kd_frame_get(prep, "disc_70x91.png.lanczos32");
    for (int k = 0; k < 3; k++) {
        kd_picture p = {0};
        OK(kd_picture_alloc(&p, 91, 70, 1, E));
        for (int i = 0; i < 91 * 70; i++) p.p[i] = ((uint8_t *)rgb->data)[3 * i + k];
        OK(kd_picture_fit(&p, 32, 32, KD_LANCZOS, true, E));
        for (int i = 0; i < 32 * 32; i++) assert_int_equal(p.p[i], ((uint8_t *)want->data)[3 * i + k]);
        kd_picture_free(&p);
    }
}

static void cover(void **state)
{
    (void)state;
    static const int64_t cases[][6] = { // from h, w; asked h, w; covering h, w
        {128, 136, 32, 32, 32, 34}, {136, 128, 32, 32, 34, 32}, {32, 32, 32, 32, 32, 32}, {50, 100, 10, 30, 15, 30},
        {100, 50, 10, 30, 60, 30}, {1, 1000, 4, 4, 4, 4000}, {3, 2, 7, 5, 7, 5}, {7, 5, 14, 10, 14, 10} };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t h = cases[i][2], w = cases[i][3];
        kd_picture_cover(cases[i][0], cases[i][1], &h, &w);
        assert_int_equal(h, cases[i][4]);
        assert_int_equal(w, cases[i][5]);
    }
}

// The crop's offset is half of what is cut, halves to even: 1 -> 0, 3 -> 2, 5 -> 2.
static void crop_offset(void **state)
{
    (void)state;
    static const int cases[][2] = { {1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 2}, {7, 4} };   // columns cut, first column kept
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int cut = cases[i][0];
        kd_picture p = {0};
        OK(kd_picture_alloc(&p, 8, 8 + cut, 1, E));
        for (int k = 0; k < 8 * (8 + cut); k++) p.p[k] = (uint8_t)(k % (8 + cut));
        OK(kd_picture_fit(&p, 8, 8, KD_BICUBIC, true, E));
        assert_int_equal(p.p[0], cases[i][1]);
        assert_int_equal(p.p[7], cases[i][1] + 7);
        kd_picture_free(&p);
    }
}

// A picture far longer than wide: only what the crop keeps is computed.
static void extreme(void **state)
{
    (void)state;
    kd_picture p = {0};
    OK(kd_picture_alloc(&p, 1, 1 << 20, 1, E));
    memset(p.p, 77, 1 << 20);
    OK(kd_picture_fit(&p, 64, 64, KD_LANCZOS, true, E));
    for (int i = 0; i < 64 * 64; i++) assert_int_equal(p.p[i], 77);
    kd_picture_free(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_fit), cmocka_unit_test(golden_stretch), cmocka_unit_test(grey), cmocka_unit_test(cover),
        cmocka_unit_test(crop_offset), cmocka_unit_test(extreme) };
    return cmocka_run_group_tests(tests, load, unload);
}
