// Devices by name: what is found where, and a sentence for each plug-in that cannot be used (tests/device/*.c).
#include "device/device.h"
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/// Opens a device and checks how its name begins.
static void opens(const char *device, const char *name)
{
    kd_err err = {0};
    kd_backend *be = NULL;
    if (kd_device_open(&be, device, &err)) fail_msg("%s", err.msg);
    assert_memory_equal(be->name, name, strlen(name));
    kd_backend_close(be);
}

/// A sentence that ends with '*' may have more to it.
static void fails(const char *device, int code, const char *sentence)
{
    kd_err err = {0};
    kd_backend *be = (kd_backend *)1;
    assert_int_equal(kd_device_open(&be, device, &err), code);
    const size_t n = strcspn(sentence, "*");
    if (sentence[n]) assert_memory_equal(err.msg, sentence, n);
    else assert_string_equal(err.msg, sentence);
    assert_null(be);
}

// Into the folder of the plug-ins, BUILD/tests/device: this program is BUILD/test-unit/device.
static int go_there(void **state)
{
    char path[PATH_MAX];
    (void)state;
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(n > 0);
    path[n] = 0;
    for (int up = 0; up < 2; up++) *strrchr(path, '/') = 0;
    assert_int_equal(chdir(path) || chdir("tests/device"), 0);
    return 0;
}

static void paths(void **state)
{
    (void)state;
    opens("cpu", "cpu (");
    opens("./good.so", "good ''");
    opens("./good.so:", "good ''");
    opens("../device/good.so:1", "good '1'");
    opens("./good.so:a:b/c.d", "good 'a:b/c.d'");
}

static void names(void **state)
{
    (void)state;
    assert_int_equal(symlink("good.so", "kd-good-2.so") && access("kd-good-2.so", F_OK), 0);
    setenv("KD_PLUGINS", ".", 1);
    opens("good-2", "good ''");
    opens("good-2:", "good ''");
    opens("good-2:12", "good '12'");
    fails("cuda", KD_EUSAGE, "--device cuda: no kd-cuda.so in .; expected auto, cpu, cuda, cuda:N or the path of a plug-in, for example "
          "./kd-cuda.so");
    fails("gpu:1", KD_EUSAGE, "--device gpu:1: no kd-gpu.so in .; expected *");
    fails("", KD_EUSAGE, "--device: expected auto, cpu, cuda, cuda:N or the path of a plug-in, for example ./kd-cuda.so, got ''");
    fails(":1", KD_EUSAGE, "--device: expected *");
    fails("cpu:1", KD_EUSAGE, "--device: expected *");
    fails("auto:1", KD_EUSAGE, "--device: expected *");
    fails("good.so", KD_EUSAGE, "--device: expected *");
    unsetenv("KD_PLUGINS");
    fails("good-2", KD_EUSAGE, "--device good-2: no kd-good-2.so in /*");
    assert_int_equal(unlink("kd-good-2.so"), 0);
}

static void unusable(void **state)
{
    char text[256];
    (void)state;
    fails("./nowhere.so", KD_EUSAGE, "./nowhere.so: No such file or directory");
    fails("./nowhere.so:1", KD_EUSAGE, "./nowhere.so: No such file or directory");
    fails("/dev/null/x.so", KD_EUSAGE, "/dev/null/x.so: Not a directory");
    fails("/dev/null", KD_EFAIL, "/dev/null: cannot be loaded: *");
    fails("./", KD_EFAIL, "./: cannot be loaded: *");
    fails("./undefined.so", KD_EFAIL, "./undefined.so: cannot be loaded: undefined symbol: kd_nowhere");
    fails("./symbol.so", KD_EFAIL, "./symbol.so: not a kd plug-in: it has no symbol kd_plugin");
    snprintf(text, sizeof text, "./abi.so: was built for version %d of the plug-in interface, but this program has version %d: "
             "rebuild it with `make`", KD_BACKEND_ABI + 1, KD_BACKEND_ABI);
    fails("./abi.so", KD_EFAIL, text);
    fails("./hash.so", KD_EFAIL, "./hash.so: was built from other sources than this program: rebuild it with `make`");
    fails("./fails.so", KD_EFAIL, "no device here");
    fails("./fails.so:7", KD_EUSAGE, "--device: no device 7");
    fails("./fails.so:silent", KD_EFAIL, "./fails.so: the device cannot be opened");
}

// `auto` with this plug-in as kd-cuda.so. Each needs a folder of its own: a path that is loaded already is not read again.
static char cuda_folder[] = "/tmp/kd-device.XXXXXX", cuda_link[64];

// A folder of plug-ins in which this one is kd-cuda.so.
static void link_cuda(const char *plugin)
{
    char target[PATH_MAX];
    strcpy(cuda_folder, "/tmp/kd-device.XXXXXX");
    assert_non_null(mkdtemp(cuda_folder));
    snprintf(cuda_link, sizeof cuda_link, "%s/kd-cuda.so", cuda_folder);
    assert_non_null(realpath(plugin, target));
    assert_int_equal(symlink(target, cuda_link), 0);
    setenv("KD_PLUGINS", cuda_folder, 1);
}

static void unlink_cuda(void)
{
    unsetenv("KD_PLUGINS");
    assert_int_equal(unlink(cuda_link) || rmdir(cuda_folder), 0);
}

static void automatic_with(const char *plugin, const char *name)
{
    link_cuda(plugin);
    opens("auto", name);
    unlink_cuda();
}

static void automatic(void **state)
{
    (void)state;
    setenv("KD_PLUGINS", "/nowhere", 1);
    opens("auto", "cpu (");
    automatic_with("good.so", "good ''");
    automatic_with("fails.so", "cpu (");
    kd_err err = {0};
    kd_backend *be;
    link_cuda("hash.so");
    assert_int_equal(kd_device_open(&be, "auto", &err), KD_EFAIL);
    assert_non_null(strstr(err.msg, "was built from other sources"));
    unlink_cuda();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths), cmocka_unit_test(names), cmocka_unit_test(unusable), cmocka_unit_test(automatic) };
    return cmocka_run_group_tests(tests, go_there, NULL);
}
