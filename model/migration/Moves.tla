------------------------------- MODULE Moves --------------------------------
(***************************************************************************)
(* Nodes that move between tiers or within one, and the workers that move  *)
(* them. Models crates/tree/src/btree/migrate.rs; SIDLE's Algorithm 1      *)
(* (section 4.2.2) as in crates/research/src/sidle/demoter.rs; and how     *)
(* crates/placement/src/boundary.rs restores the boundary.                 *)
(***************************************************************************)
EXTENDS Changes

(* What a worker does after Tree::relocate returns. An unused slot is      *)
(* freed, and the guard dropped.                                           *)
Outcome(t, had, outcome) ==
    LET r == NoFresh(had)
        parent == <<r.k, r.h + 1, r.out + 1>>
        up == IF outcome \in {"moved", "there"} /\ r.h < RootHeight
                 /\ ~\E i \in DOMAIN r.todo : r.todo[i] = parent
              THEN <<parent>> ELSE << >>
        full == outcome = "full"
        \* demote_out_of: the next slower tier. A child may be in the tier that is full.
        again == full /\ r.to < Slowest
        ends == (full /\ ~again) \/ (outcome = "blocked" /\ r.to > r.out + 1)
        \* boundary::mend: what is below the node goes to the next slower tier.
        slower == [Afresh(r) EXCEPT !.op = "subtree", !.pc = "below", !.to = @ + 1,
                                    !.todo = <<<<r.name[1], r.name[2]>>>>]
    IN
    /\ IF r.op = "compact" THEN UNCHANGED pin ELSE Unpin(t)
    /\ CASE r.op = "promote" ->
              Set(t, IF full THEN Over(r) ELSE [Afresh(r) EXCEPT !.pc = "path"])
         [] r.op = "mend" ->
              Set(t, IF ~full THEN [Afresh(r) EXCEPT !.pc = "path"]
                     ELSE IF again THEN slower ELSE Over(r))
         [] r.op = "demote" ->  \* Algorithm 1: after a node, its parent
              Set(t, IF again
                     THEN [Afresh(r) EXCEPT !.pc = "queue", !.todo = <<<<r.k, r.h, r.to + 1>>>> \o @]
                     ELSE IF ends THEN Over(r)
                     ELSE [Afresh(r) EXCEPT !.pc = "queue", !.todo = @ \o up])
         [] r.op = "subtree" ->
              Set(t, IF again THEN slower
                     ELSE IF full THEN Over(r)
                     ELSE [Afresh(r) EXCEPT !.pc = "below",
                                            !.todo = IF outcome = "blocked" THEN @ ELSE Tail(@)])
         [] r.op = "compact" -> Set(t, [Afresh(r) EXCEPT !.pc = "chunk-next"])
    /\ used' = used \ Unlinked(had)
    \* boundary::mend puts the report back if no tier has room.
    /\ broken' = IF r.op \in {"mend", "subtree"} /\ full /\ ~again
                 THEN broken \cup {r.name} ELSE broken

(* Goal::has: a node in this slot is to stay there.                        *)
Stays(r, a) ==
    CASE r.op \in {"promote", "mend"} ->
           IF Bug = "promotion-pulls-down" THEN Tier(a) = r.to ELSE Tier(a) <= r.to
      [] r.op = "compact" -> a \notin r.avoid /\ Bug # "compacted-unchecked"
      [] OTHER -> Tier(a) >= r.to

(* Tree::try_relocate, up to the locks: it checks the single boundary and  *)
(* allocates a slot.                                                       *)
Move(t) ==
    LET r == th[t]
        from == Tier(r.n)
        stop(outcome) == Outcome(t, r, outcome) /\ UNCHANGED <<word, body, wait, present, wrong>>
        blocked == CASE r.op = "compact" /\ Bug = "compacted-unchecked" -> FALSE
                     [] r.to < from -> Tier(r.p) > r.to /\ Bug # "leaf-before-ancestors"
                     [] r.to > from -> HasKidFaster(body[r.n], r.to) /\ Bug # "demoted-above-fast-child"
                     [] OTHER -> FALSE
        \* Slots of compaction candidates are not given out.
        taken == used \cup r.avoid
        free == SlotsOf(r.to) \ taken
        path == <<r.p, r.pv>>
        node == <<r.n, r.nv>>
        locks == CASE Bug = "promote-without-parent-lock" /\ r.to < from -> <<node>>
                   [] Bug = "child-locked-first" -> <<node, path>>
                   [] OTHER -> <<path, node>>
    IN
    /\ r.pc = "move"
    /\ IF r.n = None THEN stop("stale")
       ELSE IF ~Valid(r.n, r.nv)
       THEN Set(t, Afresh(r)) /\ UNCHANGED <<word, body, used, wait, pin, broken, present, wrong>>
       ELSE IF Stays(r, r.n) THEN stop("there")
       ELSE IF blocked THEN stop("blocked")
       ELSE IF r.fresh = None /\ (~HasRoom(used, r.to) \/ free = {}) THEN stop("full")
       ELSE IF r.fresh = None /\ Bug = "room-checked-then-charged"
       THEN /\ Set(t, [r EXCEPT !.pc = "charge"])
            /\ UNCHANGED <<word, body, used, wait, pin, broken, present, wrong>>
       ELSE LET new == IF r.fresh = None THEN Min(free) ELSE r.fresh IN
            /\ used' = used \cup {new}
            /\ Set(t, ToLock([r EXCEPT !.fresh = new], "copy", locks))
            /\ body' = IF Bug = "copy-before-lock" THEN [body EXCEPT ![new] = body[r.n]] ELSE body
            /\ UNCHANGED <<word, wait, pin, broken, present, wrong>>

ChargeLate(t) ==
    LET r == th[t]
        new == Free(used, r.to)
    IN
    /\ r.pc = "charge"
    /\ used' = used \cup {new}
    /\ Set(t, ToLock([r EXCEPT !.fresh = new], "copy", <<<<r.p, r.pv>>, <<r.n, r.nv>>>>))
    /\ UNCHANGED <<word, body, wait, pin, broken, present, wrong>>

(* Tree::try_relocate, under both locks. The copy ...                      *)
Copy(t) ==
    LET r == th[t]
        b == body[r.n]
    IN
    /\ r.pc = "copy"
    /\ word' = [word EXCEPT ![r.fresh] = Claimed(r.fresh)]
    /\ body' = CASE Bug = "copy-before-lock" -> body
                 [] Bug = "swing-before-copy" -> [body EXCEPT ![r.fresh] = [b EXCEPT !.has = {}, !.kids = << >>]]
                 [] OTHER -> [body EXCEPT ![r.fresh] = b]
    /\ Set(t, [r EXCEPT !.pc = "swing"])
    /\ UNCHANGED <<used, wait, pin, broken, present, wrong>>

(* ... HeldParent::adopt ...                                               *)
Swing(t) ==
    LET r == th[t] IN
    /\ r.pc = "swing"
    /\ body' = [body EXCEPT ![r.p].kids[KidKey(body[r.p], body[r.n].lo)] = r.fresh]
    /\ Set(t, [r EXCEPT !.pc = "retire"])
    /\ UNCHANGED <<word, used, wait, pin, broken, present, wrong>>

(* Seeded mistakes whose last step runs after the locks are released.      *)
TooLate == {"retire-before-version", "swing-before-copy"}

(* ... the end of the old node ...                                         *)
Retire(t) ==
    LET r == th[t] IN
    /\ r.pc = "retire"
    /\ word' = [word EXCEPT ![r.n] =
                IF Bug = "retire-before-version" THEN [@ EXCEPT !.l = FALSE] ELSE Retired(@)]
    /\ Reclaim(r.n)
    /\ Set(t, [r EXCEPT !.pc = "release", !.n = None, !.held = @ \ {r.n},
                        !.gone = IF Bug \in TooLate THEN r.n ELSE None])
    /\ UNCHANGED <<body, pin, broken, present, wrong>>

(* ... and the locks of the copy and the parent.                           *)
Release(t) ==
    LET r == th[t]
        held == r.held \cup {r.fresh}
    IN
    /\ r.pc = "release"
    /\ word' = [c \in Cells |-> IF c \in held THEN Next1(word[c]) ELSE word[c]]
    /\ UNCHANGED <<body, wait, present, wrong>>
    /\ IF Bug \in TooLate
       THEN Set(t, [r EXCEPT !.pc = "late"]) /\ UNCHANGED <<used, pin, broken>>
       ELSE Outcome(t, NoFresh(r), "moved")

(* The step that two of the seeded mistakes run too late.                  *)
Late(t) ==
    LET r == th[t] IN
    /\ r.pc = "late"
    /\ IF Bug = "swing-before-copy"
       THEN body' = [body EXCEPT ![r.fresh] = body[r.gone]] /\ UNCHANGED word
       ELSE word' = [word EXCEPT ![r.gone] = Retired(@)] /\ UNCHANGED body
    /\ UNCHANGED <<wait, present, wrong>>
    /\ Outcome(t, NoFresh(r), "moved")

-----------------------------------------------------------------------------
(* Tree::promote_to: the topmost node on the path that is slower than the  *)
(* target is the next one, and goes there straight.                        *)
(* on_path finds a name, which may be stale when it is used, so that takes *)
(* one step; a separate descent then goes there.                           *)
NextOnPath(t) ==
    LET r == th[t]
        k == r.name[1]
        slow == {h \in r.name[2]..RootHeight : ~Stays(r, OnWay(k, h))}
        next == IF Bug = "leaf-before-ancestors" THEN Min(slow) ELSE Max(slow)
    IN
    /\ r.pc = "path"
    /\ IsQuiet(Way(Root, k))
    /\ IF slow = {} THEN Set(t, Over(r)) /\ UNCHANGED pin
       ELSE Set(t, For(r, "move", k, next)) /\ Pin(t)
    /\ UNCHANGED <<word, body, used, wait, broken, present, wrong>>

(* Algorithm 1: the head of the demotion queue.                            *)
NextInQueue(t) ==
    LET r == th[t] IN
    /\ r.pc = "queue"
    /\ IF r.todo = << >> THEN Set(t, Over(r)) /\ UNCHANGED pin
       ELSE /\ Set(t, [For(r, "move", Head(r.todo)[1], Head(r.todo)[2]) EXCEPT
                       !.to = Head(r.todo)[3], !.todo = Tail(@)])
            /\ Pin(t)
    /\ UNCHANGED <<word, body, used, wait, broken, present, wrong>>

(* Tree::demote_subtree_to: children in faster tiers first. Then the node  *)
(* itself may be in a slower tier than they, and is promoted to theirs.    *)
NextBelow(t) ==
    LET r == th[t]
        top == Head(r.todo)
        a == OnWay(top[1], top[2])
        fast == {s \in DOMAIN body[a].kids : Tier(body[a].kids[s]) < r.to}
        first == <<Min(fast), top[2] - 1>>
    IN
    /\ r.pc = "below"
    /\ UNCHANGED <<word, body, used, wait, broken, present, wrong>>
    /\ IF r.todo = << >>
       THEN /\ Set(t, IF Bug = "mended-by-halves" THEN Over(r)
                      ELSE [Afresh(r) EXCEPT !.op = "mend", !.pc = "path"])
            /\ UNCHANGED pin
       ELSE /\ IsQuiet(Way(Root, top[1]))
            /\ IF top[2] <= RootHeight /\ fast # {}
               THEN Set(t, [r EXCEPT !.todo = <<first>> \o @]) /\ UNCHANGED pin
               ELSE Set(t, For(r, "move", top[1], top[2])) /\ Pin(t)

(* Tree::relocate_path: the nodes on the path that are in the chunk, top   *)
(* first. One pin for all of them.                                         *)
RECURSIVE Descending(_)
Descending(S) == IF S = {} THEN << >> ELSE <<Max(S)>> \o Descending(S \ {Max(S)})

InChunk(t) ==
    LET r == th[t]
        there == {h \in 0..RootHeight : OnWay(r.k, h) \in r.avoid}
    IN
    /\ r.pc = "chunk"
    /\ IsQuiet(Way(Root, r.k))
    /\ Set(t, [r EXCEPT !.pc = "chunk-next", !.todo = [i \in 1..Cardinality(there) |->
                                                       <<r.k, Descending(there)[i]>>]])
    /\ Pin(t)
    /\ UNCHANGED <<word, body, used, wait, broken, present, wrong>>

NextInChunk(t) ==
    LET r == th[t] IN
    /\ r.pc = "chunk-next"
    /\ IF r.todo = << >> THEN Finish(t)
       ELSE /\ Set(t, [For(r, "move", Head(r.todo)[1], Head(r.todo)[2]) EXCEPT !.todo = Tail(@)])
            /\ UNCHANGED pin
    /\ UNCHANGED <<word, body, used, wait, broken, present, wrong>>

Migrate(t) ==
    \/ Move(t) \/ ChargeLate(t) \/ Copy(t) \/ Swing(t) \/ Retire(t) \/ Release(t) \/ Late(t)
    \/ NextOnPath(t) \/ NextInQueue(t) \/ NextBelow(t) \/ InChunk(t) \/ NextInChunk(t)
=============================================================================
