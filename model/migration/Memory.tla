------------------------------- MODULE Memory -------------------------------
(***************************************************************************)
(* Slots of two tiers or more, the version word of each, and the epoch.    *)
(* Models crates/sync/src/version.rs, crates/sync/src/epoch and the        *)
(* allocation in crates/tree/src/store.rs.                                 *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
    Threads,  \* all that operate on the tree, workers included
    Budgets,  \* of each tier, fastest first: the number of slots that may be in use
    Bug       \* "none", or the mistake that is seeded

VARIABLES
    word,    \* of each cell: version v, locked l, obsolete o
    body,    \* of each cell: what the word guards
    used,    \* slots that are not free: linked, not yet linked, or retired
    wait,    \* retired slots, of this epoch and of the one before
    pin,     \* of each thread: 0 not pinned, 1 in this epoch, 2 in the one before
    highest, \* of each slot: the highest version that it ever had (a ghost)
    broken,  \* <<key, height, tier>> reported by Placement::boundary_broken
    present, \* the keys that the map holds, by the operations' answers (a ghost)
    wrong,   \* whether an operation gave an answer that it must not (a ghost)
    th       \* of each thread: its program counter and its local state

vars == <<word, body, used, wait, pin, highest, broken, present, wrong, th>>

(* Tiers are numbered from 0, the fastest. The addresses of tier t are     *)
(* 10t + 1, 10t + 2, ...: one more than its budget, which can be exceeded. *)
Slowest    == Len(Budgets) - 1
Tiers      == 0..Slowest
SlotsOf(t) == {10 * t + i : i \in 1..Budgets[t + 1] + 1}
ASSUME \A t \in Tiers : Budgets[t + 1] \in 0..8

Slots == UNION {SlotsOf(t) : t \in Tiers}
Root  == 0               \* the root cell: guarded like a node, the root's parent
None  == 1000
Cells == {Root} \cup Slots

(* Arenas::tier_of. The root cell counts as fast: Parent::tier.            *)
Tier(a) == a \div 10

Min(S) == CHOOSE x \in S : \A y \in S : x <= y
Max(S) == CHOOSE x \in S : \A y \in S : x >= y

-----------------------------------------------------------------------------
(* The word. Snapshot::validate, and what upgrade compares with:           *)
Valid(a, v) == word[a] = [v |-> v, l |-> FALSE, o |-> FALSE]

(* A new node continues its slot's version: Versioned::claim.              *)
Claimed(a) ==
    [v |-> IF Bug = "version-restarts-on-reuse" THEN 0 ELSE word[a].v,
     l |-> TRUE, o |-> FALSE]
Held(w)    == [w EXCEPT !.l = TRUE]                               \* Snapshot::upgrade
Next1(w)   == [v |-> w.v + 1, l |-> FALSE, o |-> FALSE]           \* drop of an Exclusive
Retired(w) == [v |-> w.v + 1, l |-> FALSE, o |-> TRUE]            \* Exclusive::retire

NoLocks == \A a \in Cells : ~word[a].l

-----------------------------------------------------------------------------
(* Slots. Store::allocate_in: a slot is charged and taken in one step. The *)
(* lowest free slot is taken, so slots are reused as soon as possible.     *)
(* `taken` are the slots in use.                                           *)
HasRoom(taken, t) ==
    IF Bug = "budget-of-the-fastest-alone" /\ t > 0
    THEN SlotsOf(t) \ taken # {}
    ELSE Cardinality(taken \cap SlotsOf(t)) < Budgets[t + 1]
Free(taken, t) == Min(SlotsOf(t) \ taken)

(* Store::reclaim: the slot is retired to the epoch.                       *)
Reclaim(a) ==
    IF Bug = "free-without-epoch"
    THEN used' = used \ {a} /\ UNCHANGED wait
    ELSE wait' = [wait EXCEPT ![1] = @ \cup {a}] /\ UNCHANGED used

(* Garbage::advance and take_free, by whichever thread comes first. The    *)
(* epoch advances when no thread is pinned in the previous one, and what   *)
(* was retired two epochs ago is freed. A bag holds one call and is sealed *)
(* at once, which frees no later than the code does.                       *)
Advance ==
    /\ wait[1] \cup wait[2] # {}
    /\ \A t \in Threads : pin[t] # 2
    /\ pin' = [t \in Threads |-> IF pin[t] = 0 THEN 0 ELSE 2]
    /\ IF Bug = "one-epoch-of-grace"
       THEN used' = used \ (wait[1] \cup wait[2]) /\ wait' = << {}, {} >>
       ELSE used' = used \ wait[2] /\ wait' = << {}, wait[1] >>
    /\ UNCHANGED <<word, body, broken, present, wrong, th>>
=============================================================================
