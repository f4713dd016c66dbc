-------------------------------- MODULE Tree --------------------------------
(***************************************************************************)
(* Nodes of a B+tree, and the descent to one.                              *)
(* Models crates/tree/src/btree/node, find.rs and descent.rs.              *)
(*                                                                         *)
(* A leaf has keys, an inner node has kids: a function from each child's   *)
(* lower fence to the child's slot. The root cell is written as an inner   *)
(* node with one kid, one level above the root.                            *)
(***************************************************************************)
EXTENDS Memory

CONSTANTS
    LastKey,   \* keys are 1..LastKey; fences 0..LastKey
    LeafCap,   \* Tree::CAPACITY, of leaves and of inner nodes
    InnerCap,
    Fine       \* threads whose descents take one step for each access

Keys == 1..LastKey

Leaf(lo, hi, has)     == [h |-> 0, lo |-> lo, hi |-> hi, has |-> has, kids |-> << >>]
Inner(h, lo, hi, kid) == [h |-> h, lo |-> lo, hi |-> hi, has |-> {}, kids |-> kid]
Blank == Leaf(0, 0, {})  \* what a slot that was never used looks like

Entries(b)  == IF b.h = 0 THEN b.has ELSE DOMAIN b.kids
Count(b)    == Cardinality(Entries(b))
Cap(b)      == IF b.h = 0 THEN LeafCap ELSE InnerCap
Underfull(b) == Count(b) < Cap(b) \div 4 + 1
Merged(b)   == Cap(b) - Cap(b) \div 4
Restrict(f, S) == [x \in S |-> f[x]]
(* A node restricted to the entries in S; and with another node's added.   *)
Only(b, S)  == [b EXCEPT !.has = @ \cap S, !.kids = Restrict(@, DOMAIN @ \cap S)]
With(b, c)  == [b EXCEPT !.has = @ \cup c.has, !.kids = c.kids @@ @]
(* The entry at an index, from 0.                                          *)
At(S, i)    == CHOOSE x \in S : Cardinality({y \in S : y < x}) = i

KidKey(b, k) ==
    LET below == {s \in DOMAIN b.kids : s <= k}
    IN IF below = {} THEN Min(DOMAIN b.kids) ELSE Max(below)
Kid(b, k)    == b.kids[KidKey(b, k)]                    \* Body::child_for
KidTiers(b)  == {Tier(b.kids[s]) : s \in DOMAIN b.kids}
(* Tree::has_child_faster_than.                                            *)
HasKidFaster(b, t) ==
    \E u \in KidTiers(b) : u < IF Bug = "only-the-fastest-counts" /\ t > 0 THEN 1 ELSE t

RootHeight == body[Root].h - 1

(* The cells on the path to a key, root cell first, in this state.         *)
RECURSIVE Way(_, _)
Way(a, k) == IF DOMAIN body[a].kids = {} THEN <<a>> ELSE <<a>> \o Way(Kid(body[a], k), k)
IsQuiet(way) == \A i \in DOMAIN way : ~word[way[i]].l
OnWay(k, h)  == LET way == Way(Root, k) IN way[Len(way) - h]

RECURSIVE Below(_)
Below(a) ==
    {a} \cup UNION {Below(body[a].kids[s]) : s \in DOMAIN body[a].kids}
Linked == Below(Root) \ {Root}

-----------------------------------------------------------------------------
(* A thread. It descends to node n of height h on the path to key k, below *)
(* p, and has the versions of both; then it continues at `goal`.           *)
Resting ==
    [pc |-> "idle", op |-> "none", left |-> 0,
     k |-> 0, h |-> 0, goal |-> "none",
     p |-> Root, pv |-> 0, n |-> None, nv |-> 0, nh |-> 0, link |-> None,
     saw |-> FALSE, may |-> {},                      \* of a lookup
     q |-> None, qv |-> 0, gone |-> None,            \* of a structure modification
     locks |-> << >>, held |-> {}, act |-> "none",
     fresh |-> None, above |-> None,                 \* slots not linked yet
     to |-> 0, out |-> 0, avoid |-> {},              \* of a worker
     name |-> <<0, 0, 0>>, todo |-> << >>]

(* Restart from the root; what was read is no longer valid.                *)
Afresh(r) ==
    [r EXCEPT !.pc = "find", !.p = Root, !.pv = 0, !.n = None, !.nv = 0, !.nh = 0,
              !.link = None, !.saw = FALSE, !.q = None, !.qv = 0, !.gone = None,
              !.locks = << >>, !.held = {}, !.act = "none"]
For(r, goal, k, h) == [Afresh(r) EXCEPT !.goal = goal, !.k = k, !.h = h]

Set(t, r)  == th' = [th EXCEPT ![t] = r]
Unpin(t)   == pin' = [pin EXCEPT ![t] = 0]
Pin(t)     == pin' = [pin EXCEPT ![t] = 1]
Over(r)    == [Resting EXCEPT !.left = IF r.left = 0 THEN 0 ELSE r.left - 1]  \* a mender has no count of jobs
(* The job is done, and the guard is dropped.                              *)
Finish(t)  == Set(t, Over(th[t])) /\ Unpin(t)

Into(r, p, pv, c, h) ==
    [r EXCEPT !.p = p, !.pv = pv, !.n = c, !.nv = word[c].v, !.nh = h, !.link = None]

(* Tree::find, one step a node: the child's word is read at a moment when  *)
(* the parent is unchanged, or else the thread restarts. So the step is at *)
(* the moment when all its reads were valid.                               *)
Find(t) ==
    LET r == th[t]
        a == IF r.n = None THEN Root ELSE r.n
        c == Kid(body[a], r.k)
        h == body[a].h - 1
    IN
    /\ r.pc = "find" /\ t \notin Fine
    /\ IF r.n # None /\ ~Valid(r.n, r.nv) THEN Set(t, Afresh(r))
       ELSE /\ ~word[a].l
            /\ IF h < r.h THEN Set(t, [r EXCEPT !.pc = r.goal])  \* the tree is lower
               ELSE /\ ~word[c].l
                    /\ IF word[c].o THEN Set(t, Afresh(r))
                       ELSE Set(t, [Into(r, a, word[a].v, c, h) EXCEPT
                                    !.pc = IF h = r.h THEN r.goal ELSE "find"])
    /\ UNCHANGED <<word, body, used, wait, pin, broken, present, wrong>>

(* The same with each access a step of its own, for lookups.               *)
FindFinely(t) ==
    LET r == th[t] IN
    /\ t \in Fine
    /\ UNCHANGED <<word, body, used, wait, pin, broken, present, wrong>>
    /\ \/ /\ r.pc = "find"  \* Versioned::read of the root cell
          /\ ~word[Root].l
          /\ Set(t, [r EXCEPT !.pc = "look", !.n = Root, !.nv = word[Root].v, !.nh = None])
       \/ /\ r.pc = "look"  \* the closure of Snapshot::get
          /\ LET b == body[r.n] IN
             IF b.h = 0 THEN Set(t, [r EXCEPT !.pc = "check", !.saw = r.k \in b.has])
             ELSE Set(t, [r EXCEPT !.pc = "check", !.link = Kid(b, r.k), !.nh = b.h])
       \/ /\ r.pc = "check" /\ r.link # None  \* Snapshot::validate, in get
          /\ Set(t, IF Valid(r.n, r.nv) THEN [r EXCEPT !.pc = "load"] ELSE Afresh(r))
       \/ /\ r.pc = "load"  \* Versioned::read of the child
          /\ ~word[r.link].l
          /\ Set(t, IF word[r.link].o THEN Afresh(r)
                    ELSE [r EXCEPT !.pc = "step", !.q = r.link, !.qv = word[r.link].v])
       \/ /\ r.pc = "step"  \* Snapshot::validate of the parent
          /\ Set(t, IF Valid(r.n, r.nv) \/ Bug = "parent-not-validated"
                    THEN [r EXCEPT !.pc = "look", !.p = r.n, !.pv = r.nv, !.n = r.q,
                                   !.nv = r.qv, !.q = None, !.qv = 0, !.link = None]
                    ELSE Afresh(r))

(* BTree::get, at its leaf.                                                *)
Answer(t, found) ==
    /\ wrong' = (wrong \/ found \notin th[t].may)
    /\ Finish(t)
    /\ UNCHANGED <<word, body, used, wait, broken, present>>

Get(t) ==
    LET r == th[t]
        again == /\ Set(t, Afresh(r))
                 /\ UNCHANGED <<word, body, used, wait, pin, broken, present, wrong>>
    IN
    \/ /\ r.pc = "get"
       /\ IF Valid(r.n, r.nv) THEN Answer(t, r.k \in body[r.n].has) ELSE again
    \/ /\ r.pc = "check" /\ r.link = None
       /\ IF Valid(r.n, r.nv) THEN Answer(t, r.saw) ELSE again
=============================================================================
