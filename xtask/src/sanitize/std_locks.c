/* What ThreadSanitizer cannot see of the standard library: its locks, and the ends of counts.
 *
 * It knows what orders two accesses from the atomics that it was compiled into. The standard library comes compiled without it, and
 * what is inlined from there into our crates is all it sees: a mutex taken at the first attempt, but not one that was waited for. So
 * the linker (--wrap) puts the functions below in the place of those of the standard library that are never inlined: each calls the
 * true one, and says what it orders. Only builds of `cargo xtask sanitize thread` have them; it looks up the names.
 *
 * Pointers, booleans and pairs of words are passed alike in C and in Rust on x86-64. */

#include <stdbool.h>
#include <stdint.h>

void __tsan_acquire(void *);
void __tsan_release(void *);

#define PASTE(one, two) one##two
#define NAME(one, two) PASTE(one, two)
#define REAL(name) NAME(__real_, name)
#define WRAP(name) NAME(__wrap_, name)

/* Mutex::lock that has to wait; the word that unlocking writes is the mutex itself. */
void REAL(MUTEX_LOCK)(void *mutex);
void WRAP(MUTEX_LOCK)(void *mutex) {
  REAL(MUTEX_LOCK)(mutex);
  __tsan_acquire(mutex);
}

/* RwLock::read and write that have to wait. */
void REAL(RWLOCK_READ)(void *lock);
void WRAP(RWLOCK_READ)(void *lock) {
  REAL(RWLOCK_READ)(lock);
  __tsan_acquire(lock);
}
void REAL(RWLOCK_WRITE)(void *lock);
void WRAP(RWLOCK_WRITE)(void *lock) {
  REAL(RWLOCK_WRITE)(lock);
  __tsan_acquire(lock);
}

/* Condvar::wait and wait_timeout unlock the mutex and lock it again. */
void REAL(CONDVAR_WAIT)(void *condvar, void *mutex);
void WRAP(CONDVAR_WAIT)(void *condvar, void *mutex) {
  __tsan_release(mutex);
  REAL(CONDVAR_WAIT)(condvar, mutex);
  __tsan_acquire(mutex);
}
bool REAL(CONDVAR_WAIT_TIMEOUT)(void *condvar, void *mutex, uint64_t seconds, uint32_t nanoseconds);
bool WRAP(CONDVAR_WAIT_TIMEOUT)(void *condvar, void *mutex, uint64_t seconds, uint32_t nanoseconds) {
  __tsan_release(mutex);
  bool woken = REAL(CONDVAR_WAIT_TIMEOUT)(condvar, mutex, seconds, nanoseconds);
  __tsan_acquire(mutex);
  return woken;
}

/* Once::call, where somebody has to initialise or to wait. */
void REAL(ONCE_CALL)(void *once, bool ignore_poisoning, void *closure, void *vtable);
void WRAP(ONCE_CALL)(void *once, bool ignore_poisoning, void *closure, void *vtable) {
  REAL(ONCE_CALL)(once, ignore_poisoning, closure, vtable);
  __tsan_release(once);
  __tsan_acquire(once);
}

/* The end of a scoped thread, which the scope waits for: it reads one of the words of its data, whichever. */
void REAL(SCOPE_DECREMENT)(void *data, bool panicked);
void WRAP(SCOPE_DECREMENT)(void *data, bool panicked) {
  uint64_t *words = data;
  for (int word = 0; word < 3; word++) __tsan_release(&words[word]);
  REAL(SCOPE_DECREMENT)(data, panicked);
}

/* The last `Arc` or `Weak` counts down to nothing by `Release` and then has a fence, which ThreadSanitizer does not know. Whoever
 * counts down to nothing so acquires what the others released at this count. */
uint64_t REAL(__tsan_atomic64_fetch_sub)(volatile uint64_t *count, uint64_t by, int order);
uint64_t WRAP(__tsan_atomic64_fetch_sub)(volatile uint64_t *count, uint64_t by, int order) {
  enum { RELEASE = 3 };
  uint64_t before = REAL(__tsan_atomic64_fetch_sub)(count, by, order);
  if (order == RELEASE && before == by) __tsan_acquire((void *)count);
  return before;
}
