------------------------------- MODULE Moves --------------------------------
(***************************************************************************)
(* Nodes that move between tiers, and the workers that move them. Models   *)
(* crates/tree/src/btree/migrate.rs; SIDLE's Algorithm 1 (section 4.2.2)   *)
(* as in crates/research/src/sidle/demoter.rs; and how that file restores  *)
(* the boundary.                                                           *)
(***************************************************************************)
EXTENDS Changes

(* What a worker does after Tree::relocate returns. An unused slot is      *)
(* freed, and the guard dropped.                                           *)
Outcome(t, had, outcome) ==
    LET r == NoFresh(had)
        parent == <<r.k, r.h + 1>>
        up == IF outcome \in {"moved", "there"} /\ r.h < RootHeight
                 /\ ~\E i \in DOMAIN r.todo : r.todo[i] = parent
              THEN <<parent>> ELSE << >>
    IN
    /\ Unpin(t)
    /\ CASE r.op \in {"promote", "mend"} ->
              IF outcome # "full" THEN Set(t, [Afresh(r) EXCEPT !.pc = "path"])
              ELSE IF r.op = "promote" THEN Set(t, Over(r))
              ELSE Set(t, [Afresh(r) EXCEPT !.op = "subtree", !.pc = "below", !.todo = <<r.name>>])
         [] r.op = "demote" ->  \* Algorithm 1: after a node, its parent
              Set(t, IF outcome = "full" THEN Over(r)
                     ELSE [Afresh(r) EXCEPT !.pc = "queue", !.todo = @ \o up])
         [] r.op = "subtree" ->
              Set(t, IF outcome = "full" THEN Over(r)
                     ELSE [Afresh(r) EXCEPT !.pc = "below",
                                            !.todo = IF outcome = "blocked" THEN @ ELSE Tail(@)])
    /\ used' = used \ Unlinked(had)
    \* Demoter::mend puts the report back if neither tier has room.
    /\ broken' = IF r.op = "subtree" /\ outcome = "full" THEN broken \cup {r.name} ELSE broken

(* Tree::try_relocate, up to the locks: it checks the single boundary and  *)
(* allocates a slot.                                                       *)
Move(t) ==
    LET r == th[t]
        stop(outcome) == Outcome(t, r, outcome) /\ UNCHANGED <<word, body, wait, present, wrong>>
        blocked == IF r.fast THEN ~IsFast(r.p) /\ Bug # "leaf-before-ancestors"
                   ELSE HasFastKid(body[r.n]) /\ Bug # "demoted-above-fast-child"
        path == <<r.p, r.pv>>
        node == <<r.n, r.nv>>
        locks == CASE Bug = "promote-without-parent-lock" /\ r.fast -> <<node>>
                   [] Bug = "child-locked-first" -> <<node, path>>
                   [] OTHER -> <<path, node>>
    IN
    /\ r.pc = "move"
    /\ IF r.n = None THEN stop("stale")
       ELSE IF ~Valid(r.n, r.nv)
       THEN Set(t, Afresh(r)) /\ UNCHANGED <<word, body, used, wait, pin, broken, present, wrong>>
       ELSE IF IsFast(r.n) = r.fast THEN stop("there")
       ELSE IF blocked THEN stop("blocked")
       ELSE IF r.fresh = None /\ ~HasRoom(r.fast) THEN stop("full")
       ELSE IF r.fresh = None /\ Bug = "room-checked-then-charged"
       THEN /\ Set(t, [r EXCEPT !.pc = "charge"])
            /\ UNCHANGED <<word, body, used, wait, pin, broken, present, wrong>>
       ELSE LET new == IF r.fresh = None THEN Free(r.fast) ELSE r.fresh IN
            /\ used' = used \cup {new}
            /\ Set(t, ToLock([r EXCEPT !.fresh = new], "copy", locks))
            /\ body' = IF Bug = "copy-before-lock" THEN [body EXCEPT ![new] = body[r.n]] ELSE body
            /\ UNCHANGED <<word, wait, pin, broken, present, wrong>>

ChargeLate(t) ==
    LET r == th[t]
        new == Free(r.fast)
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
(* Tree::promote_to: the topmost slow node on the path is the next one.    *)
(* on_path finds a name, which may be stale when it is used, so that takes *)
(* one step; a separate descent then goes there.                           *)
NextOnPath(t) ==
    LET r == th[t]
        k == r.name[1]
        slow == {h \in r.name[2]..RootHeight : ~IsFast(OnWay(k, h))}
        next == IF Bug = "leaf-before-ancestors" THEN Min(slow) ELSE Max(slow)
    IN
    /\ r.pc = "path"
    /\ IsQuiet(Way(Root, k))
    /\ IF slow = {} THEN Set(t, Over(r)) /\ UNCHANGED pin
       ELSE Set(t, [For(r, "move", k, next) EXCEPT !.fast = TRUE]) /\ Pin(t)
    /\ UNCHANGED <<word, body, used, wait, broken, present, wrong>>

(* Algorithm 1: the head of the demotion queue.                            *)
NextInQueue(t) ==
    LET r == th[t] IN
    /\ r.pc = "queue"
    /\ IF r.todo = << >> THEN Set(t, Over(r)) /\ UNCHANGED pin
       ELSE /\ Set(t, [For(r, "move", Head(r.todo)[1], Head(r.todo)[2]) EXCEPT
                       !.fast = FALSE, !.todo = Tail(@)])
            /\ Pin(t)
    /\ UNCHANGED <<word, body, used, wait, broken, present, wrong>>

(* Tree::demote_subtree_to: fast children first.                           *)
NextBelow(t) ==
    LET r == th[t]
        top == Head(r.todo)
        a == OnWay(top[1], top[2])
        fast == {s \in DOMAIN body[a].kids : IsFast(body[a].kids[s])}
        first == <<Min(fast), top[2] - 1>>
    IN
    /\ r.pc = "below"
    /\ UNCHANGED <<word, body, used, wait, broken, present, wrong>>
    /\ IF r.todo = << >> THEN Set(t, Over(r)) /\ UNCHANGED pin
       ELSE /\ IsQuiet(Way(Root, top[1]))
            /\ IF top[2] <= RootHeight /\ fast # {}
               THEN Set(t, [r EXCEPT !.todo = <<first>> \o @]) /\ UNCHANGED pin
               ELSE Set(t, [For(r, "move", top[1], top[2]) EXCEPT !.fast = FALSE]) /\ Pin(t)

Migrate(t) ==
    \/ Move(t) \/ ChargeLate(t) \/ Copy(t) \/ Swing(t) \/ Retire(t) \/ Release(t) \/ Late(t)
    \/ NextOnPath(t) \/ NextInQueue(t) \/ NextBelow(t)
=============================================================================
