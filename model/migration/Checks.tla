------------------------------- MODULE Checks -------------------------------
(***************************************************************************)
(* The parts of configurations: initial trees, and jobs.                   *)
(***************************************************************************)
EXTENDS Migration

Tree1(top, b) == (Root :> Inner(b.h + 1, 0, LastKey, 0 :> top)) @@ (top :> b)

(* A root above two leaves.                                                *)
Low(root, one, two, at, first, second) ==
    Tree1(root, Inner(1, 0, LastKey, (0 :> one) @@ (at :> two)))
    @@ (one :> Leaf(0, at - 1, first)) @@ (two :> Leaf(at, LastKey, second))
(* A root above two inner nodes above two leaves each; four keys.          *)
High(root, left, right, a, b, c, d) ==
    Tree1(root, Inner(2, 0, LastKey, (0 :> left) @@ (3 :> right)))
    @@ (left :> Inner(1, 0, 2, (0 :> a) @@ (2 :> b)))
    @@ (right :> Inner(1, 3, LastKey, (3 :> c) @@ (4 :> d)))
    @@ (a :> Leaf(0, 1, {1})) @@ (b :> Leaf(2, 2, {2}))
    @@ (c :> Leaf(3, 3, {3})) @@ (d :> Leaf(4, LastKey, {4}))

Reads(S)    == {Job("get", k) : k \in S}
Inserts(S)  == {Job("insert", k) : k \in S}
Removes(S)  == {Job("remove", k) : k \in S}
Promotes(S) == {Job("promote", k) : k \in S}
Demotes(S)  == {Queue(<<<<k, 0>>>>) : k \in S}


-----------------------------------------------------------------------------
(* Definitions for the configuration files, which cannot call operators.   *)
Two == 1..2
Three == 1..3
Four == 1..4
Nobody == {}
First == {1}
Slow(n) == 11..(10 + n)
Slow2 == Slow(2)
Slow5 == Slow(5)
Slow7 == Slow(7)
Slow8 == Slow(8)
OnceEach   == <<1, 1>>
OnceTwice  == <<1, 2>>
ThreeOnce  == <<1, 1, 1>>
OnceMender == <<1, 0>>

(* Two leaves, or two inner nodes above two leaves each.                   *)
AllSlow  == Low(11, 12, 13, 3, {1, 2}, {3})
FastTop  == Low(1, 11, 12, 3, {1, 2}, {3})
FastPath == Low(1, 2, 11, 3, {1, 2}, {3})
HighSlow == High(11, 12, 13, 14, 15, 16, 17)
HighPath == High(1, 2, 11, 3, 12, 13, 14)
HighRight == High(1, 11, 2, 12, 13, 3, 14)
AllSlows == {AllSlow}
LookupTrees == {AllSlow, FastPath}
FastTops    == {FastTop}
FastPaths   == {FastPath}
HighSlows   == {HighSlow}
HighPaths   == {HighPath}
HighRights  == {HighRight}
(* A full leaf with a key missing, beside one with room.                   *)
GapTrees    == {Low(1, 2, 11, 4, {1, 3}, {4})}
WideTrees   == {Low(1, 11, 12, 5, {1, 2, 4}, {5}), Low(1, 2, 11, 5, {1, 2, 4}, {5})}
(* Full leaves, below a full root, in fast memory that is full or nearly.  *)
FullTrees   == {Low(1, 2, 3, 3, {1, 2}, {3, 4}), Low(1, 2, 11, 3, {1, 2}, {3, 4})}

Lookup             == <<Reads({1}), Promotes({1, 3}) \cup Demotes({1, 3})>>
LookupBesideOne    == <<Reads({1}), Promotes({3})>>
LookupBesideWrites == <<Reads({4, 5}), Inserts({3}) \cup Removes({4, 5})>>
WriteBesideMoves   == <<Inserts({2, 5}) \cup Removes({4}), Promotes({4}) \cup Demotes({1})>>
UpAndDown          == <<Promotes({4}), {Queue(<<<<1, 0>>, <<2, 0>>>>)}>>
UpBesideDown       == <<Promotes({1}), Demotes({3})>>
TwoUp              == <<Promotes({1}), Promotes({3})>>
Mending            == <<Inserts({5}), {Mend}>>
Writers            == <<Inserts({2, 5}) \cup Removes({1, 4}), Inserts({2}) \cup Removes({3, 4})>>
WritersAndWorker   == <<Inserts({2}), Removes({4}), Promotes({4})>>
InsertBesideDown   == <<Inserts({5}), Demotes({1})>>
MergeOfTiers       == <<Removes({1}), Demotes({3})>>
MergeBesideMoves   == <<Removes({1}), Promotes({1}) \cup Demotes({1})>>

-----------------------------------------------------------------------------
(* Reachability: each of these has to be violated, or else the checks      *)
(* would prove nothing.                                                    *)
NeverWholePathPromoted ==
    ~(Idle /\ RootHeight = 2 /\ \E k \in Keys : \A h \in 0..2 : IsFast(OnWay(k, h)))
NeverSlotUsedAgain ==
    ~(th[1].n # None /\ \E a \in Linked : body[a].h = 0 /\ word[a].v >= 2)
NeverBoundaryMended ==
    ~(Idle /\ broken = {} /\ RootHeight = 2 /\ IsFast(OnWay(1, 2)))
NeverShared == \A t \in Threads : th[t].pc # "share"
NeverLevelDropped == ~(Idle /\ RootHeight = 1)
=============================================================================
