// kd-info: what a file or stream is and holds. One document (JSON) is made of it, and printed as it is or as text.
#include "base/io.h"
#include "base/json.h"
#include "base/opt.h"
#include "formats/info.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct args { const char *file; bool json, config, stats; kd_common common; };

static int parse(int argc, char **argv, struct args *a, kd_err *err)
{
    const kd_opt opts[] = {
        KD_OPT_FLAG(0, "json", &a->json, "Print one JSON object instead of text"),
        KD_OPT_FLAG('c', "config", &a->config, "Print only the config of a model or checkpoint, exactly as it is stored"),
        KD_OPT_FLAG('s', "stats", &a->stats, "Also print the minimum, maximum and mean of each tensor, or of all pixels"),
        KD_OPT_ARG("FILE", &a->file, 1, "File or stream of a kd tool, PyTorch file, ...; - for standard input"),
        KD_OPT_END };
    KD_TRY(kd_cli_parse("kd-info", "Describe a file of tensors, a model, a checkpoint or a stream of images", opts, KD_WITH_OUT,
                        argc, argv, &a->common, err));
    return a->config && (a->json || a->stats) ? kd_fail(err, KD_EUSAGE, "--config prints the config alone: not with %s",
                                                        a->json ? "--json" : "--stats") : 0;
}

// Text ---------------------------------------------------------------------------------------------------------

static const char *str(const json_t *o, const char *key) { return json_string_value(json_object_get(o, key)); }
static long long num(const json_t *o, const char *key) { return json_integer_value(json_object_get(o, key)); }

// One line; what a terminal would obey is replaced.
static int line(kd_str *s, const char *before, const char *text, kd_err *err)
{
    const size_t at = s->n;
    KD_TRY(kd_str_printf(s, err, "%s%s", before, text));
    kd_plain(s->p + at);
    return kd_str_add(s, "\n", 1, err);
}

// "  min -1  max 0.5  mean 0.01"
static int add_stats(kd_str *s, const json_t *o, kd_err *err)
{
    static const char *const names[] = { "min", "max", "mean" };
    for (int i = 0; i < 3; i++) {
        const json_t *v = json_object_get(o, names[i]);
        if (json_is_real(v))
            KD_TRY(kd_str_printf(s, err, "  %s %.6g", names[i], json_real_value(v)));
    }
    return num(o, "not_finite") ? kd_str_printf(s, err, "  not finite: %lld", num(o, "not_finite")) : 0;
}

static int text_of_images(kd_str *s, const json_t *o, kd_err *err)
{
    const json_t *labels = json_object_get(o, "labels");
    const char *label;
    json_t *count;
    KD_TRY(kd_str_printf(s, err, "images    %lld of %lld x %lld (h x w), %lld channel%s, %s", num(o, "n"), num(o, "h"), num(o, "w"),
                         num(o, "c"), num(o, "c") == 1 ? "" : "s", str(o, "dtype")));
    KD_TRY(add_stats(s, o, err));
    KD_TRY(kd_str_add(s, "\n", 1, err));
    if (json_object_size(labels))
        KD_TRY(kd_str_printf(s, err, "labels    %zu different\n", json_object_size(labels)));
    json_object_foreach((json_t *)labels, label, count)
        KD_TRY(kd_str_printf(s, err, "  %s: %lld\n", label, (long long)json_integer_value(count)));
    return 0;
}

static int text_of_tensor(kd_str *s, const json_t *t, int width, kd_err *err)
{
    const size_t at = s->n;
    size_t i;
    json_t *d;
    KD_TRY(kd_str_printf(s, err, "  %-*s  %-4s [", width, str(t, "name"), str(t, "dtype")));
    json_array_foreach(json_object_get(t, "shape"), i, d)
        KD_TRY(kd_str_printf(s, err, "%s%lld", i ? "," : "", (long long)json_integer_value(d)));
    KD_TRY(kd_str_add(s, "]", 1, err));
    KD_TRY(add_stats(s, t, err));
    kd_plain(s->p + at);
    return kd_str_add(s, "\n", 1, err);
}

static int text_of_tensors(kd_str *s, const json_t *doc, kd_err *err)
{
    json_t *list = json_object_get(doc, "tensors"), *t;
    size_t i;
    int width = 0;
    if (num(doc, "frames") > 1)
        KD_TRY(kd_str_printf(s, err, "frames    %lld; of the first:\n", num(doc, "frames")));
    KD_TRY(kd_str_printf(s, err, "tensors   %zu with %lld elements, %lld bytes\n", json_array_size(list), num(doc, "elements"),
                         num(doc, "bytes")));
    json_array_foreach(list, i, t) {
        const int n = (int)json_string_length(json_object_get(t, "name"));
        width = n > width && n <= 60 ? n : width;
    }
    json_array_foreach(list, i, t)
        KD_TRY(text_of_tensor(s, t, width, err));
    return 0;
}

// Long values (a config) are left to --config and --json.
static int text_of_meta(kd_str *s, const json_t *doc, kd_err *err)
{
    const json_t *meta = json_object_get(doc, "metadata");
    json_t *v;
    const char *key;
    size_t i;
    json_object_foreach((json_t *)meta, key, v) {
        const size_t n = json_string_length(v);
        char before[128], size[64];
        snprintf(before, sizeof before, "%-9.100s ", key);
        snprintf(size, sizeof size, "(%zu bytes%s)", n, strcmp(key, "config") ? "" : "; --config prints it");
        KD_TRY(line(s, before, n > 100 || !strcmp(key, "config") ? size : json_string_value(v), err));
    }
    json_array_foreach(json_object_get(doc, "history"), i, v)
        KD_TRY(line(s, i ? "          " : "history   ", json_string_value(v), err));
    return 0;
}

static int text_of_values(kd_str *s, const json_t *values, kd_err *err)
{
    const char *path;
    json_t *v;
    KD_TRY(kd_str_printf(s, err, "values    %zu\n", json_object_size(values)));
    json_object_foreach((json_t *)values, path, v) {
        char *text = kd_json_python(v, 0), before[200];
        if (!text)
            return kd_fail_memory(err, path);
        const size_t n = strlen(text);
        snprintf(before, sizeof before, "  %.180s  ", path);
        const int code = line(s, before, n > 100 ? "(long; --json prints it)" : text, err);
        free(text);
        KD_TRY(code);
    }
    return 0;
}

static int text_of(kd_str *s, const json_t *doc, kd_err *err)
{
    const json_t *images = json_object_get(doc, "images");
    const char *kind = str(doc, "kind");
    KD_TRY(line(s, "file      ", str(doc, "file"), err));
    KD_TRY(kd_str_printf(s, err, "kind      %s%s\n", kind, strchr(kind, '/') ? "" : " (of another program: no kd key)"));
    KD_TRY(kd_str_printf(s, err, "checksum  %s\n", str(doc, "checksum")));
    KD_TRY(text_of_meta(s, doc, err));
    if (images)
        return text_of_images(s, images, err);
    KD_TRY(text_of_tensors(s, doc, err));
    return json_object_size(json_object_get(doc, "values")) ? text_of_values(s, json_object_get(doc, "values"), err) : 0;
}

static int json_of(kd_str *s, const json_t *doc, kd_err *err)
{
    KD_TRY(kd_json_print(s, doc, JSON_INDENT(1) | JSON_REAL_PRECISION(9), err));
    return kd_str_add(s, "\n", 1, err);
}

static int config_of(kd_str *s, const json_t *doc, kd_err *err)
{
    const char *config = str(json_object_get(doc, "metadata"), "config");
    if (!config)
        return kd_fail(err, KD_EUSAGE, "%s: no config in its metadata", str(doc, "file"));
    return kd_str_printf(s, err, "%s%s", config, *config && config[strlen(config) - 1] == '\n' ? "" : "\n");
}

int main(int argc, char **argv)
{
    struct args a = {0};
    kd_err err = {0};
    json_t *doc = NULL;
    kd_str s = {0};
    kd_out *out = NULL;
    if (parse(argc, argv, &a, &err) || kd_info_of(&doc, a.file, a.stats, &err))
        goto done;
    if ((a.config ? config_of : a.json ? json_of : text_of)(&s, doc, &err))
        goto done;
    if (kd_out_open(&out, a.common.out, false, &err) || kd_out_write(out, s.p, s.n, &err))
        goto done;
    kd_out_commit(out, &err);
done:
    kd_out_close(out);
    free(s.p);
    json_decref(doc);
    kd_cli_free(&a.common);
    return kd_tool_exit("kd-info", &err);
}
