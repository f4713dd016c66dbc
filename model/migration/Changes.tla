------------------------------ MODULE Changes -------------------------------
(***************************************************************************)
(* Inserts and removes, and the structure modifications that follow.       *)
(* Models insert.rs, remove.rs, split.rs and merge.rs of                   *)
(* crates/tree/src/btree.                                                  *)
(*                                                                         *)
(* Locks are taken parent first, then children from left to right, each by *)
(* Snapshot::upgrade: if anything changed meanwhile, all are released and  *)
(* the thread restarts. Memory is allocated before any lock.               *)
(***************************************************************************)
EXTENDS Tree

(* Slots that were never linked (Fresh's drop, Tree::discard) are freed at *)
(* once.                                                                   *)
Unlinked(r) == {r.fresh, r.above} \ {None}
NoFresh(r)  == [r EXCEPT !.fresh = None, !.above = None]

(* Placement::boundary_broken, if Tree::check_boundary says so.            *)
Reports(a, b) ==
    IF HasKidFaster(b, Tier(a)) /\ Bug # "boundary-not-reported"
    THEN {<<b.lo, b.h, Min(KidTiers(b))>>} ELSE {}

(* Snapshot::upgrade of the next cell that the thread has to lock.         *)
Lock(t) ==
    LET r    == th[t]
        next == r.locks[Cardinality(r.held) + 1]
        a    == next[1]
        blind == r.act = "copy" /\
                 (Bug = "boundary-checked-unlocked" \/ (Bug = "copy-before-lock" /\ a = r.n))
        can  == IF blind THEN ~word[a].l /\ ~word[a].o ELSE Valid(a, next[2])
        last == Cardinality(r.held) + 1 = Len(r.locks)
    IN
    /\ r.pc = "lock"
    /\ Bug = "child-locked-first" => ~word[a].l
    /\ IF can
       THEN /\ word' = [word EXCEPT ![a] = Held(@)]
            /\ Set(t, [r EXCEPT !.held = @ \cup {a}, !.pc = IF last THEN r.act ELSE "lock"])
            /\ UNCHANGED used
       ELSE /\ word' = [c \in Cells |-> IF c \in r.held THEN Next1(word[c]) ELSE word[c]]
            /\ IF r.act = "copy"  \* relocate keeps its slot for the next attempt
               THEN Set(t, Afresh(r)) /\ UNCHANGED used
               ELSE Set(t, Afresh(NoFresh(r))) /\ used' = used \ Unlinked(r)
    /\ UNCHANGED <<body, wait, pin, broken, present, wrong>>

ToLock(r, act, locks) == [r EXCEPT !.pc = "lock", !.act = act, !.locks = locks]

-----------------------------------------------------------------------------
(* Tree::put and Tree::take: the leaf is locked and changed, then unlocked *)
(* with the next version. `saw` is whether the record was there.           *)
Write(t) ==
    LET r    == th[t]
        here == r.k \in body[r.n].has
        rest == <<used, wait, pin, broken, present, wrong>>
    IN
    /\ r.pc \in {"put", "take"}
    /\ IF ~Valid(r.n, r.nv) THEN Set(t, Afresh(r)) /\ UNCHANGED <<word, body>> /\ UNCHANGED rest
       ELSE IF r.pc = "take" /\ ~here
       THEN /\ wrong' = (wrong \/ r.k \in present)
            /\ Finish(t)
            /\ UNCHANGED <<word, body, used, wait, broken, present>>
       ELSE IF r.pc = "put" /\ ~here /\ Count(body[r.n]) = LeafCap
       THEN Set(t, For(r, "room", r.k, 0)) /\ UNCHANGED <<word, body>> /\ UNCHANGED rest
       ELSE /\ word' = [word EXCEPT ![r.n] = Held(@)]
            /\ body' = [body EXCEPT ![r.n].has = IF r.pc = "put" THEN @ \cup {r.k} ELSE @ \ {r.k}]
            /\ Set(t, [r EXCEPT !.pc = "unlock", !.saw = here])
            /\ UNCHANGED rest

(* Drop of the Exclusive: the linearization point.                         *)
Unlock(t) ==
    LET r     == th[t]
        after == IF r.op = "insert" THEN present \cup {r.k} ELSE present \ {r.k}
        done  == IF r.op = "remove" /\ Underfull(body[r.n])
                 THEN For(r, "shrink", r.k, 0) ELSE Over(r)
    IN
    /\ r.pc = "unlock"
    /\ word' = [word EXCEPT ![r.n] =
                IF Bug = "write-keeps-version" THEN [@ EXCEPT !.l = FALSE] ELSE Next1(@)]
    /\ wrong' = (wrong \/ r.saw # (r.k \in present))
    /\ present' = after
    /\ th' = [x \in Threads |->
              IF x = t THEN done
              ELSE IF th[x].op = "get"
              THEN [th[x] EXCEPT !.may = @ \cup {th[x].k \in after}]
              ELSE th[x]]
    /\ pin' = [pin EXCEPT ![t] = IF done.op = "none" THEN 0 ELSE 1]
    /\ UNCHANGED <<body, used, wait, broken>>

-----------------------------------------------------------------------------
CONSTANT Chosen  \* the tiers that Placement::place may choose for a new node

(* Tree::try_make_room of the node that was found. A new node goes to a    *)
(* tier that the placement chooses, none faster than its parent's, and if  *)
(* that is full to the next slower one with room (Store::allocate).        *)
WithRoom(taken, t) ==
    LET has == {u \in t..Slowest : HasRoom(taken, u)} IN IF has = {} THEN Slowest ELSE Min(has)
TiersBelow(taken, t) == {WithRoom(taken, Max({c, t})) : c \in Chosen \cap Tiers}

MakeRoom(t) ==
    LET r == th[t]
        b == body[r.n]
        above == body[r.p]
        key == KidKey(above, r.k)
        right == {s \in DOMAIN above.kids : s > key}
        left  == {s \in DOMAIN above.kids : s < key}
        beside == (IF right = {} THEN << >> ELSE <<Min(right)>>)
                  \o (IF left = {} THEN << >> ELSE <<Max(left)>>)
        sibling(i) == above.kids[beside[i]]
        same(i) == Tier(sibling(i)) = Tier(r.n)
        shares(i) == (same(i) \/ b.h = 0)
                     /\ Cap(b) - Count(body[sibling(i)]) >= 2  \* WORTH_SHARING
        willing == {i \in DOMAIN beside : shares(i)}
        best == {i \in willing : same(i)}
        quiet == UNCHANGED <<word, body, used, wait, broken, present, wrong>>
        retry == Set(t, For(r, "put", r.k, 0)) /\ UNCHANGED pin /\ quiet
    IN
    /\ r.pc = "room"
    /\ IF r.n = None THEN retry
       ELSE IF ~Valid(r.n, r.nv) \/ ~Valid(r.p, r.pv) THEN Set(t, Afresh(r)) /\ UNCHANGED pin /\ quiet
       ELSE IF Count(b) < Cap(b) THEN retry
       ELSE IF r.p # Root /\ \E i \in DOMAIN beside : word[sibling(i)].l THEN FALSE \* read waits
       ELSE IF r.p # Root /\ willing # {}
       THEN LET i == Min(IF best # {} THEN best ELSE willing)
                s == sibling(i)
                v == word[s].v
            IN /\ Set(t, ToLock([r EXCEPT !.q = s, !.qv = v], "share",
                       <<<<r.p, r.pv>>>> \o
                       (IF beside[i] > key THEN <<<<r.n, r.nv>>, <<s, v>>>>
                                           ELSE <<<<s, v>>, <<r.n, r.nv>>>>)))
               /\ UNCHANGED pin /\ quiet
       ELSE IF r.p # Root /\ Count(above) = Cap(above)
       THEN Set(t, For(r, "room", r.k, r.h + 1)) /\ UNCHANGED pin /\ quiet
       ELSE LET path == <<<<r.p, r.pv>>, <<r.n, r.nv>>>> IN
            /\ UNCHANGED <<word, body, wait, broken, present, wrong>>
            /\ \E high \in TiersBelow(used, Tier(r.p)) :
               LET top == Free(used, high)
                   with == used \cup {top}
               IN
               IF ~HasRoom(used, high) THEN Finish(t) /\ UNCHANGED used  \* OutOfMemory
               ELSE IF r.p # Root
               THEN /\ used' = with
                    /\ Set(t, ToLock([r EXCEPT !.fresh = top], "split", path))
                    /\ UNCHANGED pin
               ELSE \* first the new root, then the right half below it
                    \E low \in TiersBelow(with, high) :
                    LET half == Free(with, low) IN
                    IF ~HasRoom(with, low) THEN Finish(t) /\ UNCHANGED used
                    ELSE /\ used' = with \cup {half}
                         /\ Set(t, ToLock([r EXCEPT !.fresh = half, !.above = top], "split", path))
                         /\ UNCHANGED pin

(* Tree::split: the right half goes to the new node ...                    *)
SplitPoint(b, k) ==
    LET S == Entries(b) IN
    IF b.hi = LastKey /\ k > Max(S)
    THEN IF b.h = 0 THEN <<Cardinality(S), k>> ELSE <<Cardinality(S) - 1, Max(S)>>
    ELSE <<Cardinality(S) \div 2, At(S, Cardinality(S) \div 2)>>

Split(t) ==
    LET r == th[t]
        b == body[r.n]
        border == SplitPoint(b, r.k)[2]
        half == [Only(b, {s \in Entries(b) : s >= border}) EXCEPT !.lo = border]
        stay == [Only(b, {s \in Entries(b) : s < border}) EXCEPT !.hi = border - 1]
    IN
    /\ r.pc = "split"
    /\ word' = [word EXCEPT ![r.fresh] = Claimed(r.fresh)]
    /\ body' = [body EXCEPT ![r.fresh] = half, ![r.n] = stay]
    /\ broken' = broken \cup Reports(r.fresh, half)
    /\ Set(t, [r EXCEPT !.pc = "splice"])
    /\ UNCHANGED <<used, wait, pin, present, wrong>>

(* ... and the parent, or a new root, is made to point there.              *)
Splice(t) ==
    LET r == th[t]
        b == body[r.fresh]
        root == Inner(b.h + 1, 0, LastKey, (0 :> r.n) @@ (b.lo :> r.fresh))
    IN
    /\ r.pc = "splice"
    /\ IF r.above = None
       THEN /\ body' = [body EXCEPT ![r.p].kids = (b.lo :> r.fresh) @@ @]
            /\ UNCHANGED broken
       ELSE /\ body' = [body EXCEPT ![r.above] = root, ![Root].h = b.h + 2, ![Root].kids = (0 :> r.above)]
            /\ broken' = broken \cup Reports(r.above, root)
    /\ word' = [c \in Cells |->
                IF c \in {r.p, r.n, r.fresh} THEN Next1(word[c])
                ELSE IF c = r.above THEN Next1(Claimed(c)) ELSE word[c]]
    /\ Set(t, For(NoFresh(r), "put", r.k, 0))
    /\ UNCHANGED <<used, wait, pin, present, wrong>>

(* Tree::share: balances a full node and its sibling.                      *)
Share(t) ==
    LET r == th[t]
        one == r.locks[2][1]
        two == r.locks[3][1]
        S == Entries(body[one]) \cup Entries(body[two])
        keep == IF one = r.n THEN (Cap(body[one]) + Count(body[two])) \div 2
                ELSE Cardinality(S) - (Cap(body[one]) + Count(body[one])) \div 2
        border == At(S, keep)
        both == With(body[one], body[two])
        a == [Only(both, {s \in S : s < border}) EXCEPT !.lo = body[one].lo, !.hi = border - 1]
        b == [Only(both, {s \in S : s >= border}) EXCEPT !.lo = border, !.hi = body[two].hi]
        kids == body[r.p].kids
        old == CHOOSE s \in DOMAIN kids : kids[s] = two
    IN
    /\ r.pc = "share"
    /\ body' = [body EXCEPT ![one] = a, ![two] = b,
                            ![r.p].kids = (border :> two) @@ Restrict(kids, DOMAIN kids \ {old})]
    /\ broken' = broken \cup Reports(one, a) \cup Reports(two, b)
    /\ word' = [c \in Cells |-> IF c \in r.held THEN Next1(word[c]) ELSE word[c]]
    /\ Set(t, For(r, "put", r.k, 0))
    /\ UNCHANGED <<used, wait, pin, present, wrong>>

-----------------------------------------------------------------------------
(* Tree::shrink: the next of the nodes that may be underfull.              *)
NextToShrink(t, r) ==
    IF r.todo = << >> THEN Set(t, Over(r)) /\ Unpin(t)
    ELSE /\ Set(t, [For(r, "shrink", Head(r.todo)[1], Head(r.todo)[2]) EXCEPT !.todo = Tail(@)])
         /\ UNCHANGED pin

(* Tree::try_shrink of the node that was found.                            *)
Shrink(t) ==
    LET r == th[t]
        b == body[r.n]
        above == body[r.p]
        key == KidKey(above, r.k)
        right == {s \in DOMAIN above.kids : s > key}
        left  == {s \in DOMAIN above.kids : s < key}
        beside == (IF right = {} THEN << >> ELSE <<Min(right)>>)
                  \o (IF left = {} THEN << >> ELSE <<Max(left)>>)
        sibling(i) == above.kids[beside[i]]
        fits == {i \in DOMAIN beside : Count(b) + Count(body[sibling(i)]) <= Merged(b)}
    IN
    /\ r.pc = "shrink"
    /\ UNCHANGED <<word, body, used, wait, broken, present, wrong>>
    /\ IF r.n = None THEN NextToShrink(t, r)
       ELSE IF ~Valid(r.n, r.nv) \/ ~Valid(r.p, r.pv) THEN Set(t, Afresh(r)) /\ UNCHANGED pin
       ELSE IF r.p = Root
       THEN IF b.h > 0 /\ Count(b) = 1
            THEN /\ Set(t, ToLock(r, "drop", <<<<r.p, r.pv>>, <<r.n, r.nv>>>>))
                 /\ UNCHANGED pin
            ELSE NextToShrink(t, r)
       ELSE IF ~Underfull(b) THEN NextToShrink(t, r)
       ELSE IF \E i \in DOMAIN beside : word[sibling(i)].l THEN FALSE \* read waits
       ELSE IF fits = {} THEN NextToShrink(t, r)
       ELSE LET i == Min(fits)
                s == sibling(i)
                v == word[s].v
            IN /\ Set(t, ToLock([r EXCEPT !.q = s, !.qv = v], "merge",
                       <<<<r.p, r.pv>>>> \o
                       (IF beside[i] > key THEN <<<<r.n, r.nv>>, <<s, v>>>>
                                           ELSE <<<<s, v>>, <<r.n, r.nv>>>>)))
               /\ UNCHANGED pin

(* Tree::merge: into the left node, or into the right one if merging left  *)
(* would put children below a node in a slower tier ...                    *)
Merge(t) ==
    LET r == th[t]
        one == r.locks[2][1]
        two == r.locks[3][1]
        both == [With(body[one], body[two]) EXCEPT !.lo = body[one].lo, !.hi = body[two].hi]
        intoTwo == HasKidFaster(body[two], Tier(one)) /\ Bug # "merged-into-slow"
        stays == IF intoTwo THEN two ELSE one
        kids == body[r.p].kids
        at(c) == CHOOSE s \in DOMAIN kids : kids[s] = c
    IN
    /\ r.pc = "merge"
    /\ body' = [body EXCEPT
                ![stays] = both,
                ![r.p].kids = [s \in DOMAIN kids \ {at(two)} |->
                               IF s = at(one) THEN stays ELSE kids[s]]]
    /\ Set(t, [r EXCEPT !.pc = "merged", !.gone = IF intoTwo THEN one ELSE two,
                        !.todo = (IF body[one].h > 0 THEN <<<<body[two].lo, body[one].h - 1>>>> ELSE << >>)
                                 \o <<<<r.k, body[one].h + 1>>>> \o @])
    /\ UNCHANGED <<word, used, wait, pin, broken, present, wrong>>

(* ... and retires the other.                                              *)
MergeDone(t) ==
    LET r == th[t] IN
    /\ r.pc = "merged"
    /\ word' = [c \in Cells |-> IF c = r.gone THEN Retired(word[c])
                                ELSE IF c \in r.held THEN Next1(word[c]) ELSE word[c]]
    /\ Reclaim(r.gone)
    /\ NextToShrink(t, r)
    /\ UNCHANGED <<body, broken, present, wrong>>

(* Tree::drop_level: the only child of the root becomes the root.          *)
DropLevel(t) ==
    LET r == th[t]
        b == body[r.n]
    IN
    /\ r.pc = "drop"
    /\ body' = [body EXCEPT ![Root].h = b.h, ![Root].kids = (0 :> b.kids[Min(DOMAIN b.kids)])]
    /\ word' = [word EXCEPT ![Root] = Next1(@), ![r.n] = Retired(@)]
    /\ Reclaim(r.n)
    /\ NextToShrink(t, [r EXCEPT !.todo = <<<<r.k, b.h - 1>>>> \o @])
    /\ UNCHANGED <<broken, present, wrong>>

Change(t) ==
    \/ Lock(t) \/ Write(t) \/ Unlock(t)
    \/ MakeRoom(t) \/ Split(t) \/ Splice(t) \/ Share(t)
    \/ Shrink(t) \/ Merge(t) \/ MergeDone(t) \/ DropLevel(t)
=============================================================================
