// The C++ half of `masstree_cpp.rs`: Masstree as five functions over byte strings.
//
// Each thread makes its record (`threadinfo`) at its first operation, which it never gives back. A
// thread of this file's own advances the epoch by the clock, as the authors' programs do by a
// timer: a reader announces its epoch without a fence, so nothing may be freed right after its
// epoch has ended.

#include "config.h"

#include "compiler.hh"
#include "kvthread.hh"
#include "masstree.hh"
#include "masstree_insert.hh"
#include "masstree_remove.hh"
#include "masstree_scan.hh"
#include "masstree_tcursor.hh"
#include "string.hh"

#include <chrono>
#include <mutex>
#include <thread>

// The library declares these and leaves them to the program.
decltype(globalepoch) globalepoch{1};
decltype(active_epoch) active_epoch{1};
volatile bool recovering = false;

namespace {

struct Params : public Masstree::nodeparams<15, 15> {
    typedef uint64_t value_type;
    typedef threadinfo threadinfo_type;
};

typedef Masstree::basic_table<Params> Table;
typedef Masstree::Str Str;

// How long an epoch lasts: as in `mttest`, the authors' benchmark.
const std::chrono::milliseconds EPOCH{65};

// Guards the library's list of threads: `make` does not.
std::mutex making;
int threads = 0;
thread_local threadinfo *own = nullptr;

threadinfo *make() {
    std::lock_guard<std::mutex> guard(making);
    return threadinfo::make(threadinfo::TI_PROCESS, threads++);
}

inline threadinfo &thread() {
    if (__builtin_expect(!own, false))
        own = make();
    return *own;
}

void advance() {
    for (;;) {
        std::this_thread::sleep_for(EPOCH);
        globalepoch = globalepoch + 2;
        std::lock_guard<std::mutex> guard(making);
        active_epoch = threadinfo::min_active_epoch();
    }
}

// An operation, during which nothing that it may read is freed.
struct Operation {
    threadinfo &ti;
    Operation() : ti(thread()) { ti.rcu_start(); }
    ~Operation() { ti.rcu_stop(); }
};

inline Str str(const char *key, size_t bytes) { return Str(key, int(bytes)); }

struct Scanner {
    uint64_t *values;
    size_t limit;
    size_t count;

    template <typename Stack, typename Key>
    void visit_leaf(const Stack &, const Key &, threadinfo &) {}

    bool visit_value(Str, uint64_t value, threadinfo &) {
        values[count++] = value;
        return count < limit;
    }
};

} // namespace

extern "C" {

void *masstree_new() {
    static std::once_flag once;
    std::call_once(once, [] { std::thread(advance).detach(); });
    Operation now;
    Table *table = new Table;
    table->initialize(now.ti);
    return table;
}

bool masstree_insert(void *table, const char *key, size_t bytes, uint64_t value) {
    Operation now;
    Table::cursor_type cursor(*static_cast<Table *>(table), str(key, bytes));
    bool found = cursor.find_insert(now.ti);
    cursor.value() = value;
    fence();
    cursor.finish(1, now.ti);
    return !found;
}

bool masstree_update(void *table, const char *key, size_t bytes, uint64_t value) {
    Operation now;
    Table::cursor_type cursor(*static_cast<Table *>(table), str(key, bytes));
    bool found = cursor.find_locked(now.ti);
    if (found) {
        cursor.value() = value;
        fence();
    }
    cursor.finish(0, now.ti);
    return found;
}

bool masstree_get(void *table, const char *key, size_t bytes, uint64_t *value) {
    Operation now;
    return static_cast<Table *>(table)->get(str(key, bytes), *value, now.ti);
}

size_t masstree_scan(void *table, const char *from, size_t bytes, uint64_t *values, size_t limit) {
    Operation now;
    Scanner scanner = {values, limit, 0};
    static_cast<Table *>(table)->scan(str(from, bytes), true, scanner, now.ti);
    return scanner.count;
}
}
