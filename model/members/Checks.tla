------------------------------- MODULE Checks -------------------------------
(***************************************************************************)
(* The parts of configurations, and what has to be reachable.              *)
(***************************************************************************)
EXTENDS Members

Two == 1..2
Three == 1..3
SameRates == <<1, 1>>
(* The slowest clock that is allowed beside the other one.                 *)
SlowOwner == <<2, 3>>
ThreeRates == <<1, 1, 1>>

Operations == {"get", "put"}
Gives == Operations \cup {"give", "sync"}
(* The key goes to and fro.                                                *)
ToAndFro == <<Gives, Gives>>
(* One member gives, or stops; another takes it for dead.                  *)
OneDies == <<Operations \cup {"renew"}, Operations \cup {"watch", "bury", "sync"}>>
OneGivesAndDies ==
    <<{"put", "give", "renew"}, Operations \cup {"watch", "bury", "sync"}>>
(* Two of three die.                                                       *)
TwoDie == <<{"give"}, {"watch", "bury"}, {"watch", "bury", "sync"}>>

-----------------------------------------------------------------------------
(* Reachability: each of these has to be violated, or else the checks      *)
(* would prove nothing.                                                    *)
NeverBackAgain == ~(hands = 2 /\ m[1].mine /\ m[1].has > 2)
NeverTakenFromTheDead == ~(2 \in Members /\ m[2].mine /\ m[2].op.pc = "wrote")
NeverLeaseRenewed == ~(m[1].lease > Lease /\ now > Lease)
NeverLockTakenOver == ~(lock # None /\ lock # 1 /\ m[1].job.pc = "unlock")
=============================================================================
