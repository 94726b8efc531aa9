// The restricted unpickler: a stack machine whose only effect is a tree of values. Page: formats/pickle.md
// The opcodes' meaning is that of CPython's Lib/pickletools.py; those that are not here are refused.
#include "formats/pickle.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROTO = 0x80, NEWOBJ, TUPLE1 = 0x85, TUPLE2, TUPLE3, NEWTRUE = 0x88, NEWFALSE, LONG1, SHORT_UNICODE = 0x8c, BINBYTES8 = 0x8e,
       STACK_GLOBAL = 0x93, MEMOIZE, FRAME, BYTEARRAY8, HIGHEST_PROTOCOL = 5, VALUES_A_BLOCK = 256 };

// Values live in blocks, freed together; lists' arrays in a chain of their own.
typedef struct block { struct block *next; int used; kd_py v[VALUES_A_BLOCK]; } block;

struct kd_pickle {
    block *blocks;
    kd_py *value;
    const kd_py **outside; size_t n_outside, room_outside;
    // While reading:
    const char *file;
    const kd_py_name *names;
    const uint8_t *bytes; size_t n, pos, at;             // `at`: in the file
    size_t op;                                           // place of the opcode being read
    size_t raw;                                          // bytes so far that are in values of type BYTES
    size_t packed, spent;                                // on disk, 0: not packed; memory so far
    kd_py **stack; size_t n_stack, room_stack;
    size_t *mark; size_t n_mark, room_mark;              // heights of the stack
    kd_py **memo; size_t n_memo, memos;                  // n_memo: room, memos: those set
};

static kd_py none = { .type = KD_PY_NONE }, truth = { .type = KD_PY_BOOL, .name = 1 }, lie = { .type = KD_PY_BOOL };

void kd_pickle_free(kd_pickle *p)
{
    if (!p)
        return;
    for (block *b = p->blocks, *next; b; b = next) {
        next = b->next;
        for (int i = 0; i < b->used; i++)
            if (b->v[i].room)
                free(b->v[i].item);
        kd_free(b);
    }
    free(p->outside);
    free(p->stack);
    free(p->mark);
    free(p->memo);
    kd_free(p);
}

// Errors and memory ----------------------------------------------------------------------------------------------

static int fail(const kd_pickle *p, kd_err *err, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int fail(const kd_pickle *p, kd_err *err, const char *fmt, ...)
{
    char text[300];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return kd_fail(err, KD_EFORMAT, "%s: pickle: %s at byte %zu", p->file, text, p->at + p->op);
}

static int no_memory(const kd_pickle *p, kd_err *err) { return kd_fail_memory(err, p->file); }

size_t kd_pickle_backs(size_t on_disk, bool packed)
{
    return KD_PICKLE_BASE + (packed ? KD_PICKLE_FACTOR_PACKED : KD_PICKLE_FACTOR) * on_disk;
}

size_t kd_pickle_cost(size_t bytes) { return bytes <= 24 ? 32 : (bytes + 8 + 15) / 16 * 16; }

// All memory is paid for here. A byte of a pickle buys 56 bytes at most (a TUPLE1: a value and an array of one), so one that is
// not packed never runs out of them while it is read.
int kd_pickle_spend(kd_pickle *p, size_t bytes, kd_err *err)
{
    const size_t backs = p->packed ? p->packed : p->pos - p->raw, most = kd_pickle_backs(backs, p->packed);
    if (p->spent <= most && bytes <= most - p->spent) {
        p->spent += bytes;
        return 0;
    }
    return kd_fail(err, KD_EFORMAT, "%s: pickle: its values would take more memory than its %zu bytes on disk back (%zu)", p->file, backs,
                   most);
}

// Makes room for one more; the array doubles, so its size follows the bytes that filled it.
static int grow(kd_pickle *p, void **array, size_t n, size_t *room, size_t size, kd_err *err)
{
    if (n < *room)
        return 0;
    const size_t more = *room ? 2 * *room : 64;
    KD_TRY(kd_pickle_spend(p, (more - *room) * size, err));
    void *larger = kd_realloc(*array, more * size);
    if (!larger)
        return no_memory(p, err);
    *array = larger;
    *room = more;
    return 0;
}

static int new_value(kd_pickle *p, kd_py_type type, kd_py **v, kd_err *err)
{
    KD_TRY(kd_pickle_spend(p, sizeof **v, err));
    if (!p->blocks || p->blocks->used == VALUES_A_BLOCK) {
        block *b = kd_alloc(sizeof *b);
        if (!b)
            return no_memory(p, err);
        b->next = p->blocks;
        p->blocks = b;
    }
    *v = &p->blocks->v[p->blocks->used++];
    (*v)->type = type;
    return 0;
}

static int add_items(kd_pickle *p, kd_py *to, kd_py *const *items, size_t n, kd_err *err)
{
    if (to->room - to->n < n) {
        size_t room = to->room ? to->room : 1;           // below KD_PICKLE_MAX: fits 32 bits
        while (room - to->n < n)
            room *= 2;
        const size_t had = to->room ? kd_pickle_cost(to->room * sizeof *to->item) : 0;
        KD_TRY(kd_pickle_spend(p, kd_pickle_cost(room * sizeof *to->item) - had, err));
        kd_py **larger = kd_realloc(to->room ? to->item : NULL, room * sizeof *larger);
        if (!larger)
            return no_memory(p, err);
        to->item = larger;
        to->room = (uint32_t)room;
    }
    if (n)
        memcpy(to->item + to->n, items, n * sizeof *items);
    to->n += (uint32_t)n;
    return 0;
}

// Bytes, stack, memo ---------------------------------------------------------------------------------------------

static int take(kd_pickle *p, size_t n, const uint8_t **bytes, kd_err *err)
{
    if (p->n - p->pos < n)
        return fail(p, err, "ends after %zu of the %zu bytes that follow the opcode", p->n - p->pos, n);
    *bytes = p->bytes + p->pos;
    p->pos += n;
    return 0;
}

// An unsigned little-endian number of n bytes.
static int take_uint(kd_pickle *p, size_t n, uint64_t *to, kd_err *err)
{
    const uint8_t *b = NULL;
    KD_TRY(take(p, n, &b, err));
    *to = 0;
    for (size_t i = 0; i < n; i++)
        *to |= (uint64_t)b[i] << 8 * i;
    return 0;
}

static int push(kd_pickle *p, kd_py *v, kd_err *err)
{
    KD_TRY(grow(p, (void **)&p->stack, p->n_stack, &p->room_stack, sizeof *p->stack, err));
    p->stack[p->n_stack++] = v;
    return 0;
}

// What lies above the last mark is all that an opcode may take.
static int need(kd_pickle *p, size_t n, kd_err *err)
{
    const size_t floor = p->n_mark ? p->mark[p->n_mark - 1] : 0;
    return p->n_stack - floor >= n ? 0 : fail(p, err, "a value too few on the stack");
}

static int pop(kd_pickle *p, kd_py **v, kd_err *err)
{
    KD_TRY(need(p, 1, err));
    *v = p->stack[--p->n_stack];
    return 0;
}

static int push_mark(kd_pickle *p, kd_err *err)
{
    KD_TRY(grow(p, (void **)&p->mark, p->n_mark, &p->room_mark, sizeof *p->mark, err));
    p->mark[p->n_mark++] = p->n_stack;
    return 0;
}

// Takes what lies above the last mark; the array is good until the next push.
static int pop_mark(kd_pickle *p, kd_py ***items, size_t *n, kd_err *err)
{
    if (!p->n_mark)
        return fail(p, err, "no mark on the stack");
    const size_t height = p->mark[--p->n_mark];
    *items = p->stack ? p->stack + height : NULL;
    *n = p->n_stack - height;
    p->n_stack = height;
    return 0;
}

// Writers count the memo up from 0, at least one byte for each; a number beyond the bytes so far is an attempt on our memory.
static int memo_put(kd_pickle *p, uint64_t i, kd_err *err)
{
    KD_TRY(need(p, 1, err));
    if (i > p->pos - p->raw)
        return fail(p, err, "memo number %" PRIu64 " is too large", i);
    if (i >= p->n_memo) {
        size_t n = p->n_memo ? p->n_memo : 64;
        while (n <= i)
            n *= 2;
        KD_TRY(kd_pickle_spend(p, (n - p->n_memo) * sizeof *p->memo, err));
        kd_py **larger = kd_realloc(p->memo, n * sizeof *larger);
        if (!larger)
            return no_memory(p, err);
        memset(larger + p->n_memo, 0, (n - p->n_memo) * sizeof *larger);
        p->memo = larger;
        p->n_memo = n;
    }
    p->memos += !p->memo[i];
    p->memo[i] = p->stack[p->n_stack - 1];
    return 0;
}

static int memo_get(kd_pickle *p, uint64_t i, kd_err *err)
{
    if (i >= p->n_memo || !p->memo[i])
        return fail(p, err, "memo number %" PRIu64 " is not set", i);
    return push(p, p->memo[i], err);
}

// MEMOIZE's number is how many there are.
static int memoize(kd_pickle *p, kd_err *err) { return memo_put(p, p->memos, err); }

// Values ---------------------------------------------------------------------------------------------------------

static int push_int(kd_pickle *p, int64_t i, kd_err *err)
{
    kd_py *v;
    KD_TRY(new_value(p, KD_PY_INT, &v, err));
    v->i = i;
    return push(p, v, err);
}

static int push_sized(kd_pickle *p, kd_py_type type, size_t length_bytes, kd_err *err)
{
    kd_py *v;
    uint64_t n;
    const uint8_t *b = NULL;
    KD_TRY(take_uint(p, length_bytes, &n, err));
    KD_TRY(take(p, n, &b, err));
    if (n > UINT32_MAX)
        return fail(p, err, "%" PRIu64 " bytes in one value", n);
    KD_TRY(new_value(p, type, &v, err));
    v->s = (const char *)b;
    v->n = (uint32_t)n;
    p->raw += type == KD_PY_BYTES ? n : 0;
    return push(p, v, err);
}

// LONG1: two's complement, little-endian, as many bytes as it takes.
static int push_long(kd_pickle *p, kd_err *err)
{
    KD_TRY(push_sized(p, KD_PY_LONG, 1, err));
    kd_py *v = p->stack[p->n_stack - 1];
    if (v->n > 8)
        return 0;
    const uint8_t *b = (const uint8_t *)v->s;
    uint64_t x = v->n && b[v->n - 1] & 0x80 ? UINT64_MAX : 0;
    for (uint32_t i = v->n; i-- > 0;)
        x = x << 8 | b[i];
    v->type = KD_PY_INT;
    v->n = 0;
    v->i = (int64_t)x;
    return 0;
}

static int push_float(kd_pickle *p, kd_err *err)
{
    kd_py *v;
    const uint8_t *b = NULL;
    uint64_t x = 0;
    KD_TRY(take(p, 8, &b, err));
    for (int i = 0; i < 8; i++)
        x = x << 8 | b[i];                               // big-endian, alone in the format
    KD_TRY(new_value(p, KD_PY_FLOAT, &v, err));
    memcpy(&v->f, &x, sizeof x);
    return push(p, v, err);
}

static int push_items(kd_pickle *p, kd_py_type type, size_t n, kd_err *err)
{
    kd_py *v;
    KD_TRY(need(p, n, err));
    KD_TRY(new_value(p, type, &v, err));
    p->n_stack -= n;
    KD_TRY(add_items(p, v, n ? p->stack + p->n_stack : NULL, n, err));   // the stack may not be there yet
    return push(p, v, err);
}

static int push_tuple(kd_pickle *p, kd_err *err)
{
    kd_py **items = NULL, *v;
    size_t n = 0;
    KD_TRY(pop_mark(p, &items, &n, err));
    KD_TRY(new_value(p, KD_PY_TUPLE, &v, err));
    KD_TRY(add_items(p, v, items, n, err));
    return push(p, v, err);
}

static int append(kd_pickle *p, kd_py_type type, kd_py *const *items, size_t n, kd_err *err)
{
    KD_TRY(need(p, 1, err));
    kd_py *to = p->stack[p->n_stack - 1];
    if (to->type != type)
        return fail(p, err, "items for a %s, and none is there", type == KD_PY_LIST ? "list" : "dict");
    if (type == KD_PY_DICT && n % 2)
        return fail(p, err, "a key without a value");
    return add_items(p, to, items, n, err);
}

static int append_few(kd_pickle *p, kd_py_type type, size_t n, kd_err *err)
{
    KD_TRY(need(p, n + 1, err));
    p->n_stack -= n;
    return append(p, type, p->stack + p->n_stack, n, err);
}

static int append_marked(kd_pickle *p, kd_py_type type, kd_err *err)
{
    kd_py **items = NULL;
    size_t n = 0;
    KD_TRY(pop_mark(p, &items, &n, err));
    return append(p, type, items, n, err);
}

// Names ----------------------------------------------------------------------------------------------------------

static bool same(const char *text, const uint8_t *b, size_t n) { return strlen(text) == n && !memcmp(text, b, n); }

static bool is_name(const kd_py_name *k, const uint8_t *module, size_t n_module, const uint8_t *name, size_t n_name)
{
    const size_t n = strlen(k->module);
    if (k->use == KD_PY_MAKES_OBJECT) return n_module >= n && !memcmp(k->module, module, n) && (n_module == n || module[n] == '.');
    return same(k->module, module, n_module) && same(k->name, name, n_name);
}

static int push_name(kd_pickle *p, const uint8_t *module, size_t n_module, const uint8_t *name, size_t n_name, kd_err *err)
{
    kd_py *v;
    for (int i = 0; p->names[i].module; i++) {
        if (!is_name(&p->names[i], module, n_module, name, n_name))
            continue;
        KD_TRY(new_value(p, KD_PY_NAME, &v, err));
        v->name = i;
        return push(p, v, err);
    }
    return kd_fail(err, KD_EFORMAT, "%s: pickle: global %.*s.%.*s at byte %zu is not allowed", p->file,
                   n_module < 100 ? (int)n_module : 100, (const char *)module, n_name < 100 ? (int)n_name : 100, (const char *)name,
                   p->at + p->op);
}

static int take_line(kd_pickle *p, const uint8_t **line, size_t *n, kd_err *err)
{
    *line = p->bytes + p->pos;
    const uint8_t *end = memchr(*line, '\n', p->n - p->pos);
    if (!end)
        return fail(p, err, "ends in a global's name");
    *n = (size_t)(end - *line);
    p->pos += *n + 1;
    return 0;
}

static int global(kd_pickle *p, kd_err *err)
{
    const uint8_t *module = NULL, *name = NULL;
    size_t n_module = 0, n_name = 0;
    KD_TRY(take_line(p, &module, &n_module, err));
    KD_TRY(take_line(p, &name, &n_name, err));
    return push_name(p, module, n_module, name, n_name, err);
}

static int stack_global(kd_pickle *p, kd_err *err)
{
    kd_py *module, *name;
    KD_TRY(pop(p, &name, err));
    KD_TRY(pop(p, &module, err));
    if (module->type != KD_PY_STR || name->type != KD_PY_STR)
        return fail(p, err, "a global whose name is not text");
    return push_name(p, (const uint8_t *)module->s, module->n, (const uint8_t *)name->s, name->n, err);
}

// OrderedDict(): its items follow, as for any dict.
static int push_dict(kd_pickle *p, const kd_py *args, kd_err *err)
{
    if (args->n)
        return fail(p, err, "a dict made with arguments");
    return push_items(p, KD_PY_DICT, 0, err);
}

// A call; object: of a class, by NEWOBJ.
static int reduce(kd_pickle *p, bool object, kd_err *err)
{
    kd_py *args, *name, *v;
    KD_TRY(pop(p, &args, err));
    KD_TRY(pop(p, &name, err));
    if (name->type != KD_PY_NAME || args->type != KD_PY_TUPLE)
        return fail(p, err, "a call of something else than a name with a tuple");
    if (object != (p->names[name->name].use == KD_PY_MAKES_OBJECT) || (object && args->n))
        return fail(p, err, object ? "an object of something else than a class, or with arguments" : "a call of a class");
    if (p->names[name->name].use == KD_PY_MAKES_DICT)
        return push_dict(p, args, err);
    KD_TRY(new_value(p, KD_PY_CALL, &v, err));
    v->name = name->name;
    KD_TRY(add_items(p, v, &args, 1, err));
    return push(p, v, err);
}

// An object's own attributes: a state dict has the versions of its modules there, which nothing here needs. Or the state of what a
// call made: numpy's arrays. Or the attributes of a class's object: TorchScript's modules.
static int build(kd_pickle *p, kd_err *err)
{
    kd_py *state;
    KD_TRY(pop(p, &state, err));
    KD_TRY(need(p, 1, err));
    kd_py *to = p->stack[p->n_stack - 1];
    const kd_py_use use = to->type == KD_PY_CALL ? p->names[to->name].use : KD_PY_CALLS;
    if ((use == KD_PY_TAKES_STATE && state->type == KD_PY_TUPLE) || (use == KD_PY_MAKES_OBJECT && state->type == KD_PY_DICT))
        return to->n == 1 ? add_items(p, to, &state, 1, err) : fail(p, err, "a second state");
    return to->type == KD_PY_DICT && state->type == KD_PY_DICT ? 0 : fail(p, err, "attributes for something else than a dict");
}

static int push_outside(kd_pickle *p, kd_err *err)
{
    KD_TRY(push_items(p, KD_PY_OUTSIDE, 1, err));
    KD_TRY(grow(p, (void **)&p->outside, p->n_outside, &p->room_outside, sizeof *p->outside, err));
    p->outside[p->n_outside++] = p->stack[p->n_stack - 1];
    return 0;
}

// The machine ----------------------------------------------------------------------------------------------------

static int protocol(kd_pickle *p, kd_err *err)
{
    uint64_t x;
    KD_TRY(take_uint(p, 1, &x, err));
    return x <= HIGHEST_PROTOCOL ? 0 : fail(p, err, "protocol %d is not known", (int)x);
}

static int number(kd_pickle *p, size_t bytes, kd_err *err)
{
    uint64_t x;
    KD_TRY(take_uint(p, bytes, &x, err));
    return push_int(p, bytes == 4 ? (int32_t)x : (int64_t)x, err);
}

// PUT and GET with a binary number.
static int memo(kd_pickle *p, size_t bytes, int (*what)(kd_pickle *, uint64_t, kd_err *), kd_err *err)
{
    uint64_t i;
    KD_TRY(take_uint(p, bytes, &i, err));
    return what(p, i, err);
}

static int refuse(const kd_pickle *p, int op, kd_err *err)
{
    if (op > ' ' && op < 0x7f)
        return fail(p, err, "opcode '%c' is not allowed", op);
    return fail(p, err, "opcode 0x%02x is not allowed", op);
}

static int step(kd_pickle *p, int op, kd_err *err)
{
    kd_py *v;
    uint64_t x;
    switch (op) {
    case PROTO:         return protocol(p, err);
    case FRAME:         return take_uint(p, 8, &x, err);     // how much to read ahead: nothing to us
    case '(':           return push_mark(p, err);
    case '0':           return pop(p, &v, err);
    case 'N':           return push(p, &none, err);
    case NEWTRUE:       return push(p, &truth, err);
    case NEWFALSE:      return push(p, &lie, err);
    case 'K':           return number(p, 1, err);
    case 'M':           return number(p, 2, err);
    case 'J':           return number(p, 4, err);
    case LONG1:         return push_long(p, err);
    case 'G':           return push_float(p, err);
    case 'X':           return push_sized(p, KD_PY_STR, 4, err);
    case SHORT_UNICODE:
    case 'U':           return push_sized(p, KD_PY_STR, 1, err);
    case 'T':           return push_sized(p, KD_PY_STR, 4, err);
    case 'C':           return push_sized(p, KD_PY_BYTES, 1, err);
    case 'B':           return push_sized(p, KD_PY_BYTES, 4, err);
    case BINBYTES8:
    case BYTEARRAY8:    return push_sized(p, KD_PY_BYTES, 8, err);
    case ')':           return push_items(p, KD_PY_TUPLE, 0, err);
    case TUPLE1:        return push_items(p, KD_PY_TUPLE, 1, err);
    case TUPLE2:        return push_items(p, KD_PY_TUPLE, 2, err);
    case TUPLE3:        return push_items(p, KD_PY_TUPLE, 3, err);
    case 't':           return push_tuple(p, err);
    case ']':           return push_items(p, KD_PY_LIST, 0, err);
    case 'a':           return append_few(p, KD_PY_LIST, 1, err);
    case 'e':           return append_marked(p, KD_PY_LIST, err);
    case '}':           return push_items(p, KD_PY_DICT, 0, err);
    case 's':           return append_few(p, KD_PY_DICT, 2, err);
    case 'u':           return append_marked(p, KD_PY_DICT, err);
    case 'q':           return memo(p, 1, memo_put, err);
    case 'r':           return memo(p, 4, memo_put, err);
    case MEMOIZE:       return memoize(p, err);
    case 'h':           return memo(p, 1, memo_get, err);
    case 'j':           return memo(p, 4, memo_get, err);
    case 'c':           return global(p, err);
    case STACK_GLOBAL:  return stack_global(p, err);
    case 'R':           return reduce(p, false, err);
    case NEWOBJ:        return reduce(p, true, err);
    case 'b':           return build(p, err);
    case 'Q':           return push_outside(p, err);
    }
    return refuse(p, op, err);
}

static int run(kd_pickle *p, kd_err *err)
{
    for (;;) {
        const uint8_t *op;
        p->op = p->pos;
        if (p->pos == p->n)
            return fail(p, err, "ends without its STOP");
        if (p->pos - p->raw >= KD_PICKLE_MAX)
            return fail(p, err, "does not end");
        KD_TRY(take(p, 1, &op, err));
        if (*op == '.')
            break;
        KD_TRY(step(p, *op, err));
    }
    if (p->n_stack != 1 || p->n_mark)
        return fail(p, err, "ends with %zu values instead of one", p->n_stack);
    p->value = p->stack[0];
    return 0;
}

int kd_pickle_read(kd_pickle **out, const char *file, const void *bytes, size_t n, size_t at, size_t packed, const kd_py_name *names,
                   size_t *used, kd_err *err)
{
    kd_pickle *p = kd_alloc(sizeof *p);
    *out = NULL;
    if (!p)
        return kd_fail_memory(err, file);
    p->file = file;
    p->bytes = bytes;
    p->n = n;
    p->at = at;
    p->packed = packed;
    p->spent = packed ? n : 0;
    p->names = names;
    const int code = run(p, err);
    *used = p->pos;
    if (code)
        kd_pickle_free(p);
    else
        *out = p;
    return code;
}

// The protocol, and in 4 and 5 a frame of less than 2^40 bytes. A safetensors file begins with a length of at most 10^8, whose bytes 4 to 7
// are zero, and its byte 8 is '{'.
bool kd_pickle_knows(const void *bytes, size_t n)
{
    const uint8_t *b = bytes;
    if (n < 11 || b[0] != PROTO || b[1] < 2 || b[1] > HIGHEST_PROTOCOL)
        return false;
    return (b[4] | b[5] | b[6] | b[7]) || (b[2] == FRAME && !(b[8] | b[9] | b[10]));
}

// Looking at values ----------------------------------------------------------------------------------------------

const kd_py *kd_pickle_value(const kd_pickle *p) { return p->value; }

size_t kd_pickle_outside(const kd_pickle *p, const kd_py *const **list)
{
    *list = p->outside;
    return p->n_outside;
}

bool kd_py_is(const kd_py *v, const char *text)
{
    return v->type == KD_PY_STR && strlen(text) == v->n && !memcmp(text, v->s, v->n);
}

const kd_py *kd_py_get(const kd_py *dict, const char *key)
{
    if (dict->type != KD_PY_DICT)
        return NULL;
    for (uint32_t i = dict->n; i >= 2; i -= 2)
        if (kd_py_is(dict->item[i - 2], key))
            return dict->item[i - 1];
    return NULL;
}

const char *kd_py_what(const kd_py *v, char *buf, size_t room)
{
    static const char *const what[] = { "None", "a bool", "a number", "a number", "text", "a large number", "bytes", "a list", "a tuple",
                                        "a dict", "a name", "a call", "something outside" };
    switch (v->type) {
    case KD_PY_INT:   snprintf(buf, room, "the number %" PRId64, v->i); break;
    case KD_PY_FLOAT: snprintf(buf, room, "the number %g", v->f); break;
    case KD_PY_STR:   snprintf(buf, room, "\"%.*s\"", v->n < 40 ? (int)v->n : 40, v->s); break;
    default:          snprintf(buf, room, "%s", what[v->type]);
    }
    return buf;
}
