#include "device/device.h"
#include "base/memory.h"
#include "cpu/cpu.h"
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Finding a plug-in --------------------------------------------------------------------------------------------------------

/// Where plug-ins are looked for, in this order.
typedef struct folders { int n; char path[2][PATH_MAX + sizeof "/lib/kd"]; } folders;

static folders plugin_folders(void)
{
    folders f = {0};
    const char *const given = getenv("KD_PLUGINS");
    if (given && *given) {
        if (strlen(given) < PATH_MAX) strcpy(f.path[f.n++], given);
        return f;
    }
    char *bin = f.path[0];
    const ssize_t n = readlink("/proc/self/exe", bin, PATH_MAX - 1);
    if (n <= 0) return f;
    bin[n] = 0;
    *strrchr(bin, '/') = 0;
    strcpy(f.path[1], bin);
    char *up = strrchr(f.path[1], '/');
    strcpy(up ? up : f.path[1], "/lib/kd");
    f.n = 2;
    return f;
}

/// *path: kd-NAME.so in the first folder that has it, or NULL. Free it with free().
static int find(char **path, const folders *f, const char *name, kd_err *err)
{
    *path = NULL;
    for (int i = 0; i < f->n; i++) {
        kd_str s = {0};
        if (kd_str_printf(&s, err, "%s/kd-%s.so", f->path[i], name)) {
            free(s.p);
            return err->code;
        }
        if (!access(s.p, F_OK)) {
            *path = s.p;
            return 0;
        }
        free(s.p);
    }
    return 0;
}

// Loading it ---------------------------------------------------------------------------------------------------------------

// dlerror's message, usually with the path at its start, which is removed.
static const char *load_error(const char *path)
{
    const char *s = dlerror();
    const size_t n = strlen(path);
    if (!s) return "unknown error";
    return !strncmp(s, path, n) && !strncmp(s + n, ": ", 2) ? s + n + 2 : s;
}

// The version is checked first: what follows it may differ between versions.
static int check(const struct kd_plugin *p, const char *path, kd_err *err)
{
    if (!p) return kd_fail(err, KD_EFAIL, "%s: not a kd plug-in: it has no symbol kd_plugin", path);
    if (p->abi != KD_BACKEND_ABI)
        return kd_fail(err, KD_EFAIL, "%s: was built for version %u of the plug-in interface, but this program has version %u: "
                       "rebuild it with `make`", path, (unsigned)p->abi, (unsigned)KD_BACKEND_ABI);
    if (p->ops() != kd_ops_hash())
        return kd_fail(err, KD_EFAIL, "%s: was built from other sources than this program: rebuild it with `make`", path);
    return 0;
}

/// *fits: it is a plug-in for this program, whether its device opens or not.
static int load(kd_backend **be, const char *path, const char *which, bool *fits, kd_err *err)
{
    struct stat st;
    *fits = false;
    if (stat(path, &st)) return kd_fail(err, KD_EUSAGE, "%s: %s", path, strerror(errno));
    void *const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return kd_fail(err, KD_EFAIL, "%s: cannot be loaded: %s", path, load_error(path));
    const struct kd_plugin *const p = dlsym(handle, "kd_plugin");
    if (check(p, path, err)) {
        dlclose(handle);
        return err->code;
    }
    // The plug-in stays loaded, even if its device does not open: libraries such as CUDA's may have started threads and registered
    // exit handlers, whose code must not be unloaded.
    *fits = true;
    if (!p->open(be, which, err)) return 0;
    *be = NULL;
    return err->code ? err->code : kd_fail(err, KD_EFAIL, "%s: the device cannot be opened", path);
}

// Names --------------------------------------------------------------------------------------------------------------------

static const char expected[] = "auto, cpu, cuda, cuda:N or the path of a plug-in, for example ./kd-cuda.so";

static int open_path(kd_backend **be, const char *device, kd_err *err)
{
    char *const path = kd_strdup(device), *colon = NULL;
    if (!path) return kd_fail_memory(err, "a file name");
    for (char *at = path; (at = strstr(at, ".so:")); at++) colon = at + 3;
    if (colon) *colon = 0;
    bool fits;
    const int code = load(be, path, colon ? colon + 1 : "", &fits, err);
    free(path);
    return code;
}

static int open_name(kd_backend **be, const char *device, const char *name, const char *which, kd_err *err)
{
    const folders f = plugin_folders();
    char *path;
    KD_TRY(find(&path, &f, name, err));
    if (!path)
        return kd_fail(err, KD_EUSAGE, "--device %s: no kd-%s.so in %s%s%s; expected %s", device, name, f.path[0], f.n > 1 ? " or " : "",
                       f.path[1], expected);
    bool fits;
    const int code = load(be, path, which, &fits, err);
    free(path);
    return code;
}

// A machine without a GPU may well have the plug-in: then its device does not open, and the CPU is meant. A plug-in that does
// not fit this program is an error.
static int open_auto(kd_backend **be, kd_err *err)
{
    const folders f = plugin_folders();
    char *path;
    bool fits = false;
    kd_err failed = {0};
    KD_TRY(find(&path, &f, "cuda", err));
    if (!path) return kd_cpu_open(be, err);
    const int code = load(be, path, "", &fits, &failed);
    free(path);
    if (!code) return 0;
    return fits ? kd_cpu_open(be, err) : kd_fail(err, failed.code, "%s", failed.msg);
}

int kd_device_open(kd_backend **be, const char *device, kd_err *err)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    *be = NULL;
    if (!strcmp(device, "auto")) return open_auto(be, err);
    if (!strcmp(device, "cpu")) return kd_cpu_open(be, err);
    if (strchr(device, '/')) return open_path(be, device, err);
    char name[64];
    const size_t n = strspn(device, letters);
    if (!n || n >= sizeof name || (device[n] && device[n] != ':') || !strncmp(device, "auto:", 5) || !strncmp(device, "cpu:", 4))
        return kd_fail(err, KD_EUSAGE, "--device: expected %s, got '%s'", expected, device);
    memcpy(name, device, n);
    name[n] = 0;
    return open_name(be, device, name, device[n] ? device + n + 1 : "", err);
}
