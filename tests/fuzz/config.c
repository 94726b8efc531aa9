// Any bytes as a config, a user's and a foreign model's. One that is accepted prints a config that is accepted as the same.
#include "model/config.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void parse(const char *json, bool foreign)
{
    kd_err err = {0};
    kd_config *c = NULL, *again = NULL;
    char *warning = NULL;
    int code = kd_config_parse(&c, json, "fuzz.json", foreign, &warning, &err);
    free(warning);
    if (code != err.code) abort();
    if (code) {
        if ((code != KD_EUSAGE && code != KD_EFORMAT) || !err.msg[0]) abort();
        return;
    }
    if (kd_config_parse(&again, c->json, "again.json", foreign, &warning, &err)) abort();
    free(warning);
    if (kd_config_model_difference(c, again) || kd_config_training_change(c, again, 0)) abort();
    kd_config_free(again);
    kd_config_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char *json = malloc(n + 1);
    if (!json) abort();
    memcpy(json, bytes, n);
    json[n] = 0;
    parse(json, false);
    parse(json, true);
    free(json);
    return 0;
}
