/* Counts a program's loads and stores by NUMA node, behind a modelled last-level cache: a plugin of QEMU's TCG.
 *
 * The program says between which marks, and to which addresses, accesses count (crates/tier/src/mark.rs). Each access in between
 * goes through the caches, whatever its address, by its guest *physical* address, so what is counted does not depend on who put a
 * page where it is. A line of the output is an interval between two marks:
 *
 *     interval N fast loads L stores S missed M slow loads L stores S missed M elsewhere fast M slow M
 *
 * `elsewhere` are missing lines of other addresses: stacks, requests, figures.
 *
 * Assumes one emulated CPU, and that no other program runs between the marks. Instructions of the kernel are left out, and so is
 * what its page copies do to the cache.
 *
 * Arguments: out=FILE, slow=ADDRESS (where the slow node's physical memory begins), cache=BYTES (a power of two).
 * QEMU's header is not packaged: what is used of it is declared here (plugin API of QEMU 10, docs/devel/tcg-plugins.rst). */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
typedef uint32_t mem_info;
struct block;
struct insn;
struct hwaddr;
struct reg;
struct array { char *data; unsigned length; }; /* GArray, GByteArray */
struct reg_descriptor { struct reg *handle; const char *name; const char *feature; };
enum { NO_REGISTERS, READ_REGISTERS };
enum { LOADS_AND_STORES = 3 };

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct block *));
extern size_t qemu_plugin_tb_n_insns(const struct block *);
extern struct insn *qemu_plugin_tb_get_insn(const struct block *, size_t);
extern size_t qemu_plugin_insn_data(const struct insn *, void *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct insn *);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct insn *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_register_vcpu_mem_cb(struct insn *, void (*)(unsigned, mem_info, uint64_t, void *), int, int, void *);
extern bool qemu_plugin_mem_is_store(mem_info);
extern struct hwaddr *qemu_plugin_get_hwaddr(mem_info, uint64_t);
extern bool qemu_plugin_hwaddr_is_io(const struct hwaddr *);
extern uint64_t qemu_plugin_hwaddr_phys_addr(const struct hwaddr *);
extern struct array *qemu_plugin_get_registers(void);
extern int qemu_plugin_read_register(struct reg *, struct array *);
extern struct array *g_byte_array_new(void);
extern void *g_byte_array_free(struct array *, int);

EXPORT int qemu_plugin_version = 4;

enum { LINE = 64, WAYS = 16 };

struct node { uint64_t loads, stores, missed, elsewhere; };

static struct node nodes[2];
static bool counting;
static uint64_t first, last; /* the addresses that count */
static unsigned intervals;
static uint64_t slow_begin = UINT64_MAX;
static FILE *out;

/* A cache: physical lines; 0 is an empty way. Replacement is the emulator's (crates/tier/src/emulator/cache.rs): second chance,
 * earned by a hit, so what is read once leaves first. */
struct set { uint64_t lines[WAYS]; uint16_t earned; uint8_t hand; };
struct cache { struct set *sets; uint64_t count; };

/* The last level, and a core's own in front of it. A lookup loads from a line several times, which the core's own answers: to the
 * last level it is one access, as it is to the emulator. */
static struct cache last_level, own;
enum { OWN_BYTES = 32 << 10 };

static bool make(struct cache *cache, uint64_t bytes)
{
    cache->count = bytes / LINE / WAYS;
    bool possible = cache->count && !(cache->count & (cache->count - 1));
    return possible && (cache->sets = calloc(cache->count, sizeof *cache->sets));
}

static bool is_in(struct cache *cache, uint64_t address)
{
    uint64_t line = address / LINE + 1, count = cache->count;
    /* Folded, as last-level caches do: nodes of 1 KiB would else crowd into every sixteenth set with their headers. */
    struct set *set = &cache->sets[(line ^ line / count ^ line / count / count) % count];
    for (int way = 0; way < WAYS; way++) {
        if (set->lines[way] == line) {
            set->earned |= 1u << way;
            return true;
        }
    }
    while (set->earned & 1u << set->hand) {
        set->earned &= ~(1u << set->hand);
        set->hand = (set->hand + 1) % WAYS;
    }
    set->lines[set->hand] = line;
    set->hand = (set->hand + 1) % WAYS;
    return false;
}

static void count_access(unsigned cpu, mem_info info, uint64_t address, void *data)
{
    if (!counting)
        return;
    struct hwaddr *where = qemu_plugin_get_hwaddr(info, address);
    if (!where || qemu_plugin_hwaddr_is_io(where))
        return;
    uint64_t physical = qemu_plugin_hwaddr_phys_addr(where);
    struct node *node = &nodes[physical >= slow_begin];
    bool cached = is_in(&own, physical) || is_in(&last_level, physical);
    if (address < first || address >= last) {
        node->elsewhere += !cached;
        return;
    }
    node->missed += !cached;
    if (qemu_plugin_mem_is_store(info))
        node->stores++;
    else
        node->loads++;
}

static uint64_t read_register(const char *name)
{
    struct array *all = qemu_plugin_get_registers();
    struct reg_descriptor *registers = (struct reg_descriptor *)all->data;
    uint64_t value = 0;
    for (unsigned i = 0; i < all->length; i++) {
        if (strcmp(registers[i].name, name))
            continue;
        struct array *bytes = g_byte_array_new();
        if (qemu_plugin_read_register(registers[i].handle, bytes) == sizeof value)
            memcpy(&value, bytes->data, sizeof value);
        g_byte_array_free(bytes, 1);
    }
    return value;
}

static void begin(unsigned cpu, void *data)
{
    first = read_register("rdi");
    last = read_register("rsi");
    memset(nodes, 0, sizeof nodes);
    counting = true;
}

static void end(unsigned cpu, void *data)
{
    static const char *const names[] = {"fast", "slow"};
    if (!counting)
        return;
    counting = false;
    fprintf(out, "interval %u", ++intervals);
    for (int i = 0; i < 2; i++)
        fprintf(out, " %s loads %llu stores %llu missed %llu", names[i], (unsigned long long)nodes[i].loads,
                (unsigned long long)nodes[i].stores, (unsigned long long)nodes[i].missed);
    fprintf(out, " elsewhere fast %llu slow %llu\n", (unsigned long long)nodes[0].elsewhere,
            (unsigned long long)nodes[1].elsewhere);
    fflush(out);
}

/* The marks: xchg bx, bx and xchg dx, dx. */
static bool is_mark(const struct insn *insn, uint8_t registers)
{
    uint8_t bytes[3];
    return qemu_plugin_insn_data(insn, bytes, sizeof bytes) == sizeof bytes && bytes[0] == 0x66 && bytes[1] == 0x87
        && bytes[2] == registers;
}

static void translate(plugin_id id, struct block *block)
{
    size_t count = qemu_plugin_tb_n_insns(block);
    for (size_t i = 0; i < count; i++) {
        struct insn *insn = qemu_plugin_tb_get_insn(block, i);
        bool is_kernel = qemu_plugin_insn_vaddr(insn) >> 47;
        if (is_kernel)
            continue;
        if (is_mark(insn, 0xdb))
            qemu_plugin_register_vcpu_insn_exec_cb(insn, begin, READ_REGISTERS, NULL);
        else if (is_mark(insn, 0xd2))
            qemu_plugin_register_vcpu_insn_exec_cb(insn, end, NO_REGISTERS, NULL);
        else
            qemu_plugin_register_vcpu_mem_cb(insn, count_access, NO_REGISTERS, LOADS_AND_STORES, NULL);
    }
}

static const char *argument(const char *text, const char *name)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) ? NULL : text + length;
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    uint64_t bytes = 1 << 20;
    for (int i = 0; i < argc; i++) {
        const char *value;
        if ((value = argument(argv[i], "out=")))
            out = fopen(value, "w");
        else if ((value = argument(argv[i], "slow=")))
            slow_begin = strtoull(value, NULL, 0);
        else if ((value = argument(argv[i], "cache=")))
            bytes = strtoull(value, NULL, 0);
    }
    if (!out || !make(&last_level, bytes) || !make(&own, OWN_BYTES)) {
        fprintf(stderr, "accesses: give out=FILE and cache=BYTES, a power of two\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    return 0;
}
