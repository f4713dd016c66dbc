----------------------------- MODULE Migration ------------------------------
(***************************************************************************)
(* The migration protocol: concurrent operations on a B+tree, structure    *)
(* modifications and moves between tiers; and the invariants.              *)
(***************************************************************************)
EXTENDS Moves

CONSTANTS
    Jobs,   \* of each thread: the jobs it may run
    Times,  \* of each thread: the number of jobs
    Begins  \* initial trees: records of bodies of linked cells

Job(op, k)       == [op |-> op, k |-> k, tier |-> 0, todo |-> << >>, slots |-> {}]
Mend             == Job("mend", 0)
(* A leaf and its ancestors, to a tier.                                    *)
Promote(k, to)   == [Job("promote", k) EXCEPT !.tier = to]
(* Algorithm 1, its initial queue, out of a tier.                          *)
Queue(todo, out) == [Job("demote", 0) EXCEPT !.tier = out, !.todo = todo]
(* Relocate::relocate_path, out of a chunk of these slots.                 *)
Compact(k, slots) == [Job("compact", k) EXCEPT !.tier = Tier(Min(slots)), !.slots = slots]

Begin(t) ==
    \E j \in Jobs[t] :
    LET r == [th[t] EXCEPT !.op = j.op]
        find(goal) == For(r, goal, j.k, 0)
        quiet == UNCHANGED <<word, body, used, wait, present, wrong>>
    IN
    /\ th[t].pc = "idle"
    /\ j.op = "mend" \/ th[t].left > 0
    /\ CASE j.op = "get" -> /\ Set(t, [find("get") EXCEPT !.may = {j.k \in present}])
                            /\ Pin(t) /\ quiet /\ UNCHANGED broken
         [] j.op = "insert" -> Set(t, find("put")) /\ Pin(t) /\ quiet /\ UNCHANGED broken
         [] j.op = "remove" -> Set(t, find("take")) /\ Pin(t) /\ quiet /\ UNCHANGED broken
         [] j.op = "promote" -> /\ Set(t, [r EXCEPT !.name = <<j.k, 0, j.tier>>, !.to = j.tier,
                                                    !.pc = "path"])
                                /\ quiet /\ UNCHANGED <<pin, broken>>
         [] j.op = "demote" -> /\ Set(t, [r EXCEPT !.out = j.tier, !.pc = "queue",
                                   !.todo = [i \in DOMAIN j.todo |-> Append(j.todo[i], j.tier + 1)]])
                               /\ quiet /\ UNCHANGED <<pin, broken>>
         [] j.op = "compact" -> /\ Set(t, [r EXCEPT !.k = j.k, !.to = j.tier, !.avoid = j.slots,
                                                    !.pc = "chunk"])
                                /\ quiet /\ UNCHANGED <<pin, broken>>
         [] j.op = "mend" -> \E name \in broken :
                               /\ Set(t, [r EXCEPT !.name = name, !.to = name[3], !.pc = "path"])
                               /\ broken' = broken \ {name}
                               /\ quiet /\ UNCHANGED pin

Idle == \A t \in Threads : th[t].pc = "idle"
Ended ==
    /\ \A t \in Threads : th[t].pc = "idle" /\ th[t].left = 0
    /\ broken = {} \/ \A t \in Threads : Mend \notin Jobs[t]
    /\ wait[1] \cup wait[2] = {}

StepOf(t) == Begin(t) \/ Find(t) \/ FindFinely(t) \/ Get(t) \/ Change(t) \/ Migrate(t)
Watched ==
    highest' = [a \in Slots |-> IF word'[a].v > highest[a] THEN word'[a].v ELSE highest[a]]

Next ==
    \/ (\E t \in Threads : StepOf(t)) /\ Watched
    \/ Advance /\ Watched
    \/ Ended /\ UNCHANGED vars

Init ==
    \E tree \in Begins :
    /\ body = [c \in Cells |-> IF c \in DOMAIN tree THEN tree[c] ELSE Blank]
    /\ word = [c \in Cells |-> [v |-> 0, l |-> FALSE, o |-> FALSE]]
    /\ used = DOMAIN tree \ {Root}
    /\ wait = << {}, {} >>
    /\ pin = [t \in Threads |-> 0]
    /\ highest = [a \in Slots |-> 0]
    /\ broken = {}
    /\ present = UNION {tree[c].has : c \in DOMAIN tree}
    /\ wrong = FALSE
    /\ th = [t \in Threads |-> [Resting EXCEPT !.left = Times[t]]]

Spec == Init /\ [][Next]_vars

(* Under fair scheduling all work ends: no thread restarts for ever.       *)
FairSpec ==
    /\ Spec
    /\ \A t \in Threads : WF_vars(StepOf(t) /\ Watched)
    /\ WF_vars(Advance /\ Watched)
AllWorkEnds == <>Ended

-----------------------------------------------------------------------------
(* A key that is in the map is in the leaf that lookups reach. (While a    *)
(* node on the path is locked, they wait.)                                 *)
NoLostKey ==
    \A k \in present :
    LET way == Way(Root, k) IN IsQuiet(way) => k \in body[way[Len(way)]].has

(* No key is in two leaves, or in one that its lookups do not reach, or    *)
(* still there after it was removed.                                       *)
NoDuplicate ==
    NoLocks =>
    \A a \in Linked : \A k \in body[a].has :
    LET way == Way(Root, k) IN
    k \in present /\ way[Len(way)] = a /\ body[a].lo <= k /\ k <= body[a].hi

(* An operation's answer was right at a moment while it ran.               *)
NoWrongAnswer == ~wrong

(* No pinned thread holds the address of a free slot.                      *)
Addresses(r) == {r.p, r.n, r.link, r.q} \ {Root, None}
NoReadOfFreedMemory ==
    /\ \A t \in Threads : Addresses(th[t]) \subseteq used
    /\ \A t \in Threads : Addresses(th[t]) # {} => pin[t] # 0
    /\ NoLocks => Linked \subseteq used

(* A slot's version never decreases, and what was read under a version     *)
(* that is still current is what is there.                                 *)
EqualVersionsEqualContents ==
    /\ \A a \in Slots : word[a].v = highest[a]
    /\ \A t \in Threads :
       LET r == th[t] IN
       r.pc = "check" /\ Valid(r.n, r.nv) =>
       IF r.link # None THEN r.link = Kid(body[r.n], r.k) ELSE r.saw = (r.k \in body[r.n].has)

(* When all threads are idle and every report was handled, no node is in a *)
(* slower tier than its child.                                             *)
SingleBoundaryWhenQuiet ==
    Idle /\ broken = {} => \A a \in Linked : \A u \in KidTiers(body[a]) : Tier(a) <= u

(* Memory in use in each tier, retired nodes included, is within its       *)
(* budget.                                                                 *)
BudgetKept == \A t \in Tiers : Cardinality(used \cap SlotsOf(t)) <= Budgets[t + 1]

(* A promotion moves nodes to a faster tier, a demotion to a slower one,   *)
(* compaction within the tier.                                             *)
MovesGoTheirWay ==
    \A t \in Threads :
    LET r == th[t] IN
    r.pc \in {"swing", "retire"} =>
    CASE r.op \in {"promote", "mend"} -> Tier(r.fresh) < Tier(r.n)
      [] r.op \in {"demote", "subtree"} -> Tier(r.fresh) > Tier(r.n)
      [] r.op = "compact" -> Tier(r.fresh) = Tier(r.n) /\ r.fresh \notin r.avoid

(* When all threads are idle and nothing waits, unlinked slots are free.   *)
NoLeakWhenQuiet == Idle /\ wait[1] \cup wait[2] = {} => used = Linked

(* Fences of siblings meet, and heights fit.                               *)
WellFormed ==
    NoLocks =>
    \A a \in Linked :
    LET b == body[a]
        S == DOMAIN b.kids
    IN b.h > 0 =>
       /\ S # {} /\ Min(S) = b.lo /\ Count(b) <= InnerCap
       /\ \A s \in S :
          LET c == body[b.kids[s]] IN
          /\ c.h = b.h - 1 /\ c.lo = s /\ Count(c) <= Cap(c)
          /\ c.hi = IF \E x \in S : x > s THEN Min({x \in S : x > s}) - 1 ELSE b.hi
=============================================================================
