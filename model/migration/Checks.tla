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
Promotes(S) == {Promote(k, 0) : k \in S}
Demotes(S)  == {Queue(<<<<k, 0>>>>, 0) : k \in S}
(* The same with more tiers: to one of these, or out of one.               *)
PromotesTo(S, T)  == {Promote(k, t) : k \in S, t \in T}
DemotesOutOf(S, T) == {Queue(<<<<k, 0>>>>, t) : k \in S, t \in T}

-----------------------------------------------------------------------------
(* Definitions for the configuration files, which cannot call operators.   *)
Two == 1..2
Three == 1..3
Nobody == {}
First == {1}
AnyTier == Tiers
TheSlowest == {Slowest}
Budget_1_5 == <<1, 5>>
Budget_2_5 == <<2, 5>>
Budget_3_2 == <<3, 2>>
Budget_3_5 == <<3, 5>>
Budget_3_7 == <<3, 7>>
Budget_3_8 == <<3, 8>>
Budget_1_1_4 == <<1, 1, 4>>
Budget_1_1_5 == <<1, 1, 5>>
Budget_2_2_5 == <<2, 2, 5>>
Budget_2_2_7 == <<2, 2, 7>>
Budget_3_1_1 == <<3, 1, 1>>
Budget_3_3_7 == <<3, 3, 7>>
Budget_3_3_8 == <<3, 3, 8>>
OnceEach   == <<1, 1>>
OnceTwice  == <<1, 2>>
ThreeOnce  == <<1, 1, 1>>
OnceMender == <<1, 0>>
TwiceMender == <<2, 0>>

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

(* The same in three tiers. All in the slowest; steps down a path; a root  *)
(* above two slow leaves.                                                  *)
LowestLow   == Low(21, 22, 23, 3, {1, 2}, {3})
LowestHigh  == High(21, 22, 23, 24, 25, 26, 27)
StepLow     == Low(1, 11, 21, 3, {1, 2}, {3})
Middle      == Low(11, 12, 21, 3, {1, 2}, {3})
StepHigh    == High(1, 2, 11, 3, 12, 13, 21)
LowestLows  == {LowestLow}
LowestHighs == {LowestHigh}
StepHighs   == {StepHigh}
Middles     == {Middle}
StepLows    == {StepLow, Middle}
LookupSteps == {LowestLow, StepLow}
FastRoots   == {Low(1, 21, 22, 3, {1, 2}, {3})}
GapSteps    == {Low(1, 11, 21, 4, {1, 3}, {4})}
FullFasts   == {Low(1, 2, 3, 3, {1, 2}, {3, 4})}
FullSteps   == {Low(1, 2, 3, 3, {1, 2}, {3, 4}), Low(1, 2, 11, 3, {1, 2}, {3, 4})}
(* A full leaf, which is the root.                                         *)
LeafRoots   == {Tree1(1, Leaf(0, LastKey, {1, 2}))}
MergeSteps  == {High(1, 21, 11, 22, 23, 12, 24), High(1, 11, 2, 12, 21, 3, 22),
                High(11, 21, 12, 22, 23, 13, 24)}

Lookup             == <<Reads({1}), Promotes({1, 3}) \cup Demotes({1, 3})>>
LookupBesideOne    == <<Reads({1}), Promotes({3})>>
LookupBesideWrites == <<Reads({4, 5}), Inserts({3}) \cup Removes({4, 5})>>
WriteBesideMoves   == <<Inserts({2, 5}) \cup Removes({4}), Promotes({4}) \cup Demotes({1})>>
UpAndDown          == <<Promotes({4}), {Queue(<<<<1, 0>>, <<2, 0>>>>, 0)}>>
UpBesideDown       == <<Promotes({1}), Demotes({3})>>
TwoUp              == <<Promotes({1}), Promotes({3})>>
Mending            == <<Inserts({5}), {Mend}>>
Writers            == <<Inserts({2, 5}) \cup Removes({1, 4}), Inserts({2}) \cup Removes({3, 4})>>
WritersAndWorker   == <<Inserts({2}), Removes({4}), Promotes({4})>>
InsertBesideDown   == <<Inserts({5}), Demotes({1})>>
MergeOfTiers       == <<Removes({1}), Demotes({3})>>
MergeBesideMoves   == <<Removes({1}), Promotes({1}) \cup Demotes({1})>>
LookupAmongThree     == <<Reads({1}), PromotesTo({1, 3}, {0, 1}) \cup DemotesOutOf({1, 3}, {0, 1})>>
WriteAmongThree      == <<Inserts({2}) \cup Removes({4}),
                          PromotesTo({4}, {0, 1}) \cup DemotesOutOf({1}, {1})>>
UpAndDownAmongThree  == <<PromotesTo({4}, {0, 1}), {Queue(<<<<1, 0>>, <<2, 0>>>>, t) : t \in {0, 1}}>>
UpBesideDownOfThree  == <<PromotesTo({1, 3}, {0, 1}), DemotesOutOf({1, 3}, {0, 1})>>
DownToTheSlowest     == <<DemotesOutOf({3}, {1}), PromotesTo({3}, {1})>>
TwoToTheMiddle       == <<PromotesTo({1}, {1}), PromotesTo({3}, {1})>>
ToTwoTiers           == <<PromotesTo({4}, {0}), PromotesTo({1}, {1})>>
InsertBesideDownOfThree == <<Inserts({5}), DemotesOutOf({1}, {0, 1})>>
MendingThree         == <<Inserts({3, 4}), {Mend}>>
MergeAmongThree      == <<Removes({1}), DemotesOutOf({3}, {0, 1})>>
CompactBesideMoves   == <<{Compact(1, {11, 12})},
                          DemotesOutOf({1}, {1}) \cup PromotesTo({1}, {0}) \cup Inserts({4})>>
LookupBesideCompact  == <<Reads({1}), {Compact(1, {11, 12}), Compact(1, {13})}>>

-----------------------------------------------------------------------------
(* Reachability: each of these has to be violated, or else the checks      *)
(* would prove nothing.                                                    *)
NeverWholePathPromoted ==
    ~(Idle /\ RootHeight = 2 /\ \E k \in Keys : \A h \in 0..2 : Tier(OnWay(k, h)) = 0)
NeverSlotUsedAgain ==
    ~(th[1].n # None /\ \E a \in Linked : body[a].h = 0 /\ word[a].v >= 2)
NeverBoundaryMended ==
    ~(Idle /\ broken = {} /\ RootHeight = 2 /\ Tier(OnWay(1, 2)) = 0)
NeverShared == \A t \in Threads : th[t].pc # "share"
NeverLevelDropped == ~(Idle /\ RootHeight = 1)
(* Nodes in all three tiers on one path, each slower than its parent.      *)
NeverOfThreeTiers ==
    ~(Idle /\ RootHeight = 2 /\ \E k \in Keys : \A h \in 0..2 : Tier(OnWay(k, h)) = 2 - h)
(* A leaf moves from one tier to another, past that between them.          *)
Passes(t, from, to) ==
    /\ th[t].pc = "retire" /\ body[th[t].fresh].h = 0
    /\ Tier(th[t].n) = from /\ Tier(th[t].fresh) = to
NeverPromotedStraight   == \A t \in Threads : ~Passes(t, 2, 0)
NeverPromotedByAStep    == \A t \in Threads : ~Passes(t, 2, 1)
NeverDemotedByTwo == \A t \in Threads : ~Passes(t, 0, 2)
(* A node that was made in the slowest tier above children in the fast one *)
(* is in the middle with them.                                             *)
NeverMendedInTheMiddle ==
    \A t \in Threads :
    ~(th[t].op = "mend" /\ th[t].pc = "retire" /\ th[t].name[3] = 0
      /\ Tier(th[t].n) = 2 /\ Tier(th[t].fresh) = 1)
(* A node within a tier, while another thread has its old address.         *)
NeverCompactedUnderLookup ==
    ~(th[1].n # None /\ th[1].n \notin Linked /\ Tier(th[1].n) = 1 /\ th[2].pc = "chunk-next")
=============================================================================
