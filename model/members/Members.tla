------------------------------ MODULE Members ------------------------------
(***************************************************************************)
(* Compute servers that share a key: its record is in the memory pool, and *)
(* perhaps in the cache of the one that has the key. The key changes hands *)
(* by agreement, or because its owner was taken for dead.                  *)
(*                                                                         *)
(* A member that stops takes no more steps. So does one that has died:     *)
(* for what may never happen there is no difference.                       *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets

CONSTANTS
    Members,  \* numbers from 1
    Can,      \* of each member: what it may do
    Rates,    \* of each member: what its clock advances in a step of time
    Lease,    \* of each member, by its own clock
    Last,     \* the last moment
    Values,   \* the most writes
    Beats,    \* the most heartbeats of each member
    Hands,    \* the most hand-overs
    Through,  \* whether a write is in the pool when it is acknowledged
    Bug       \* a seeded one

VARIABLES
    now,
    (* The pool. Memory server 1 has the directory, number 2 the record.   *)
    record,   \* the number of the write whose value it has
    owner,    \* who has the key, as the table says; 0 is nobody
    lock,     \* who holds the table's lock; 0 is nobody
    place,    \* of each member: whether it is in the directory, and its heartbeat
    fenced,   \* of each memory server: for whom it carries out nothing more
    (* The members.                                                        *)
    m,
    (* What those who use them know.                                       *)
    writes,   \* writes so far
    acked,    \* the latest write that was acknowledged
    hands,    \* hand-overs so far
    wrong     \* a read has returned something older than what was acknowledged before

pool == <<record, owner, lock, place, fenced>>
users == <<writes, acked, hands, wrong>>
vars == <<now, pool, m, users>>

Directory == 1
Records == 2
None == 0
(* After this time without a new heartbeat a member is taken for dead.     *)
Patience == IF Bug = "patience-of-one-lease" THEN Lease ELSE (3 * Lease) \div 2

Clock(c) == now * Rates[c]
Max(a, b) == IF a > b THEN a ELSE b
Set(c, r) == m' = [m EXCEPT ![c] = r]
Serves(c, at) == c \notin fenced[at]
IsLive(c) == place[c].is = "live"
Live == {c \in Members : IsLive(c)}
InTime(c) == Clock(c) < m[c].lease

-----------------------------------------------------------------------------
(* Operations on the key. A member has one under way at a time. `op.pc` is *)
(* where it stands. From "fetch" to "wrote" it has a flight: nothing else  *)
(* of this member is under way at the record's address.                    *)
IsFlying(c) == m[c].op.pc \in {"fetch", "fetched", "write", "wrote", "through"}
Rest == [pc |-> "rest", saw |-> None, must |-> None]
Cached(c) == m[c].has # None

(* A get, or a write, of what the cache has.                               *)
GetCached(c) ==
    /\ "get" \in Can[c] /\ m[c].op.pc = "rest" /\ Cached(c)
    /\ Set(c, [m[c] EXCEPT !.op = [pc |-> "got", saw |-> m[c].has, must |-> acked]])
    /\ UNCHANGED <<now, pool, users>>
PutCached(c) ==
    /\ "put" \in Can[c] /\ m[c].op.pc = "rest" /\ Cached(c) /\ writes < Values
    /\ writes' = writes + 1
    /\ LET next == IF Through /\ Bug # "acknowledged-before-written" THEN "follow" ELSE "put"
       IN Set(c, [m[c] EXCEPT !.has = writes + 1, !.dirty = TRUE,
                              !.op = [Rest EXCEPT !.pc = next, !.saw = writes + 1]])
    /\ UNCHANGED <<now, pool, acked, hands, wrong>>

(* With write-through, the leaf is written before the answer; if it has    *)
(* left the cache meanwhile, it was written then.                          *)
Follow(c) ==
    /\ m[c].op.pc = "follow" /\ m[c].job.pc # "clean"
    /\ Set(c, [m[c] EXCEPT !.op.pc = IF Cached(c) /\ m[c].dirty THEN "through" ELSE "put"])
    /\ UNCHANGED <<now, pool, users>>
WriteThrough(c) ==
    /\ m[c].op.pc = "through"
    /\ IF Serves(c, Records)
       THEN /\ record' = m[c].has
            /\ Set(c, [m[c] EXCEPT !.dirty = FALSE, !.op.pc = "put"])
       ELSE /\ Set(c, [m[c] EXCEPT !.op = Rest])
            /\ UNCHANGED record
    /\ UNCHANGED <<now, owner, lock, place, fenced, users>>

(* The answer, if the lease has not ended.                                 *)
Answer(c) ==
    LET op == m[c].op
        is_valid == InTime(c) \/ Bug = "lease-not-checked"
    IN
    /\ op.pc \in {"got", "put"}
    /\ wrong' = (wrong \/ (is_valid /\ op.pc = "got" /\ op.saw < op.must))
    /\ acked' = IF is_valid /\ op.pc = "put" THEN Max(acked, op.saw) ELSE acked
    /\ Set(c, [m[c] EXCEPT !.op = Rest])
    /\ UNCHANGED <<now, pool, writes, hands>>

(* What the cache does not have is fetched by the owner. Then it stays in  *)
(* the cache, or is worked on in passing.                                  *)
Fetch(c) ==
    /\ m[c].op.pc = "rest" /\ ~Cached(c) /\ m[c].mine /\ m[c].job.pc # "clean"
    /\ {"get", "put"} \cap Can[c] # {}
    /\ Set(c, [m[c] EXCEPT !.op = [pc |-> "fetch", saw |-> None, must |-> acked]])
    /\ UNCHANGED <<now, pool, users>>
ReadRecord(c) ==
    /\ m[c].op.pc = "fetch"
    /\ Set(c, [m[c] EXCEPT !.op = IF Serves(c, Records)
                                  THEN [@ EXCEPT !.pc = "fetched", !.saw = record]
                                  ELSE Rest])
    /\ UNCHANGED <<now, pool, users>>
Install(c) ==
    /\ m[c].op.pc = "fetched"
    /\ Set(c, [m[c] EXCEPT !.has = m[c].op.saw, !.dirty = FALSE, !.op = Rest])
    /\ UNCHANGED <<now, pool, users>>
GetFetched(c) ==
    /\ "get" \in Can[c] /\ m[c].op.pc = "fetched"
    /\ wrong' = (wrong \/ m[c].op.saw < m[c].op.must)
    /\ Set(c, [m[c] EXCEPT !.op = Rest])
    /\ UNCHANGED <<now, pool, writes, acked, hands>>
PutFetched(c) ==
    /\ "put" \in Can[c] /\ m[c].op.pc = "fetched" /\ writes < Values
    /\ Set(c, [m[c] EXCEPT !.op.pc = "write"])
    /\ UNCHANGED <<now, pool, users>>
WriteRecord(c) ==
    /\ m[c].op.pc = "write"
    /\ IF Serves(c, Records)
       THEN /\ record' = writes + 1 /\ writes' = writes + 1
            /\ Set(c, [m[c] EXCEPT !.op.pc = "wrote", !.op.saw = writes + 1])
       ELSE /\ Set(c, [m[c] EXCEPT !.op = Rest])
            /\ UNCHANGED <<record, writes>>
    /\ UNCHANGED <<now, owner, lock, place, fenced, acked, hands, wrong>>
PutDone(c) ==
    /\ m[c].op.pc = "wrote"
    /\ acked' = Max(acked, m[c].op.saw)
    /\ Set(c, [m[c] EXCEPT !.op = Rest])
    /\ UNCHANGED <<now, pool, writes, hands, wrong>>

Operate(c) ==
    \/ GetCached(c) \/ PutCached(c) \/ Follow(c) \/ WriteThrough(c) \/ Answer(c)
    \/ Fetch(c) \/ ReadRecord(c) \/ Install(c) \/ GetFetched(c) \/ PutFetched(c)
    \/ WriteRecord(c) \/ PutDone(c)

-----------------------------------------------------------------------------
(* The work on the table. A member does one thing at a time there.         *)
(* `job.pc` is where it stands, `job.to` the other member.                 *)
Idle == [pc |-> "idle", to |-> None, what |-> None]
Go(c, pc) == Set(c, [m[c] EXCEPT !.job.pc = pc])
Failed(c) == Set(c, [m[c] EXCEPT !.job = Idle])

(* Reads who has the key, and takes it if it is this member's.             *)
ReadTable(c) ==
    /\ "sync" \in Can[c] /\ m[c].job.pc = "idle" /\ Serves(c, Directory)
    /\ m[c].mine # (owner = c)
    /\ IF m[c].mine
       THEN Set(c, [m[c] EXCEPT !.lease = 0])
       ELSE Go(c, "acquire")
    /\ UNCHANGED <<now, pool, users>>
Acquire(c) ==
    /\ m[c].job.pc = "acquire"
    /\ Set(c, [m[c] EXCEPT !.mine = TRUE, !.job = Idle])
    /\ UNCHANGED <<now, pool, users>>

(* Gives the key to another member: takes no more operations, waits for    *)
(* those under way, writes what only the cache has, and forgets it.        *)
Release(c, d) ==
    /\ "give" \in Can[c] /\ m[c].job.pc = "idle" /\ m[c].mine /\ hands < Hands
    /\ c # d /\ Serves(c, Directory) /\ IsLive(d)
    /\ hands' = hands + 1
    /\ LET next == CASE Bug = "not-drained" -> "forget"
                     [] Bug = "table-before-cache" -> "lock"
                     [] OTHER -> "drain"
       IN Set(c, [m[c] EXCEPT !.mine = FALSE, !.job = [pc |-> next, to |-> d, what |-> None]])
    /\ UNCHANGED <<now, pool, writes, acked, wrong>>
Drain(c) ==
    /\ m[c].job.pc = "drain" /\ ~IsFlying(c)
    /\ Go(c, "forget")
    /\ UNCHANGED <<now, pool, users>>
Forget(c) ==
    /\ m[c].job.pc = "forget"
    /\ IF m[c].dirty /\ Bug # "changes-forgotten"
       THEN /\ ~IsFlying(c)
            /\ Set(c, [m[c] EXCEPT !.job.pc = "clean", !.job.what = m[c].has])
       ELSE Set(c, [m[c] EXCEPT !.has = None, !.dirty = FALSE, !.job.pc = "lock"])
    /\ UNCHANGED <<now, pool, users>>
(* If it is changed meanwhile, it is written again.                        *)
Clean(c) ==
    /\ m[c].job.pc = "clean"
    /\ IF Serves(c, Records)
       THEN /\ record' = m[c].job.what
            /\ Set(c, [m[c] EXCEPT !.dirty = m[c].has # m[c].job.what, !.job.pc = "forget"])
       ELSE /\ Set(c, [m[c] EXCEPT !.mine = TRUE, !.job = Idle])
            /\ UNCHANGED record
    /\ UNCHANGED <<now, owner, lock, place, fenced, users>>

(* The table changes under its lock. Who was fenced holds no lock.         *)
TakeLock(c) ==
    /\ m[c].job.pc \in {"lock", "lock-to-bury"}
    /\ IF Serves(c, Directory)
       THEN /\ \/ lock = None
               \/ ~Serves(lock, Directory)
               \/ Bug = "lock-of-the-living" /\ lock # c
            /\ lock' = c
            /\ Go(c, IF m[c].job.pc = "lock" THEN "check"
                     ELSE IF Bug = "heir-chosen-before-the-lock" THEN "give" ELSE "choose")
       ELSE Failed(c) /\ UNCHANGED lock
    /\ UNCHANGED <<now, record, owner, place, fenced, users>>
(* It may only give keys to those who are members while it is locked.      *)
CheckMembers(c) ==
    /\ m[c].job.pc = "check"
    /\ Go(c, IF Serves(c, Directory) /\ IsLive(c) /\ IsLive(m[c].job.to)
             THEN "assign" ELSE "unlock")
    /\ UNCHANGED <<now, pool, users>>
Assign(c) ==
    /\ m[c].job.pc = "assign"
    /\ IF Serves(c, Directory) THEN owner' = m[c].job.to ELSE UNCHANGED owner
    /\ Go(c, IF Bug = "table-before-cache" THEN "late" ELSE "unlock")
    /\ UNCHANGED <<now, record, lock, place, fenced, users>>
Late(c) ==
    /\ m[c].job.pc = "late"
    /\ Set(c, [m[c] EXCEPT !.has = None, !.dirty = FALSE, !.job.pc = "unlock"])
    /\ UNCHANGED <<now, pool, users>>
Unlock(c) ==
    /\ m[c].job.pc = "unlock"
    /\ lock' = IF Serves(c, Directory) /\ lock = c THEN None ELSE lock
    /\ Failed(c)
    /\ UNCHANGED <<now, record, owner, place, fenced, users>>

(* Distributes the key of a dead member, after all memory servers know.    *)
Bury(c, d) ==
    /\ "bury" \in Can[c] /\ m[c].job.pc = "idle" /\ Serves(c, Directory)
    /\ place[d].is = "dead" /\ c # d
    /\ Set(c, [m[c] EXCEPT !.job =
           [pc |-> IF Bug = "not-fenced" THEN "lock-to-bury" ELSE "fence", to |-> d,
            what |-> IF Bug = "heir-chosen-before-the-lock" /\ Live # {}
                     THEN CHOOSE e \in Live : \A f \in Live : e <= f ELSE None]])
    /\ UNCHANGED <<now, pool, users>>
Fence(c) ==
    /\ m[c].job.pc = "fence" /\ Serves(c, Directory)
    /\ fenced' = [fenced EXCEPT ![Directory] = @ \cup {m[c].job.to}]
    /\ Go(c, IF Bug = "fenced-at-one" THEN "lock-to-bury" ELSE "fence-records")
    /\ UNCHANGED <<now, record, owner, lock, place, users>>
FenceRecords(c) ==
    /\ m[c].job.pc = "fence-records" /\ Serves(c, Records)
    /\ fenced' = [fenced EXCEPT ![Records] = @ \cup {m[c].job.to}]
    /\ Go(c, "lock-to-bury")
    /\ UNCHANGED <<now, record, owner, lock, place, users>>
Choose(c) ==
    /\ m[c].job.pc = "choose"
    /\ IF Serves(c, Directory) /\ owner = m[c].job.to
       THEN \E e \in IF Live = {} THEN {None} ELSE Live :
            Set(c, [m[c] EXCEPT !.job.pc = "give", !.job.what = e])
       ELSE Go(c, "clear")
    /\ UNCHANGED <<now, pool, users>>
Inherit(c) ==
    /\ m[c].job.pc = "give"
    /\ IF Serves(c, Directory) /\ owner = m[c].job.to
       THEN /\ owner' = m[c].job.what
            (* Without write-through, what only the dead one's cache had   *)
            (* is lost.                                                    *)
            /\ acked' = IF Through THEN acked ELSE record
       ELSE UNCHANGED <<owner, acked>>
    /\ Go(c, "clear")
    /\ UNCHANGED <<now, record, lock, place, fenced, writes, hands, wrong>>
Clear(c) ==
    /\ m[c].job.pc = "clear"
    /\ place' = IF Serves(c, Directory) THEN [place EXCEPT ![m[c].job.to].is = "gone"] ELSE place
    /\ Go(c, "unlock")
    /\ UNCHANGED <<now, record, owner, lock, fenced, users>>

Tend(c) ==
    \/ ReadTable(c) \/ Acquire(c) \/ (\E d \in Members : Release(c, d) \/ Bury(c, d))
    \/ Drain(c) \/ Forget(c) \/ Clean(c) \/ TakeLock(c) \/ CheckMembers(c) \/ Assign(c)
    \/ Late(c) \/ Unlock(c) \/ Fence(c) \/ FenceRecords(c) \/ Choose(c) \/ Inherit(c)
    \/ Clear(c)

-----------------------------------------------------------------------------
(* Heartbeats. The answer to one may be lost: then the next one finds it   *)
(* in its place, and the lease does not begin with it.                     *)
Renew(c) ==
    /\ "renew" \in Can[c] /\ m[c].beat.pc = "rest" /\ m[c].beat.count < Beats
    /\ Set(c, [m[c] EXCEPT !.beat.pc = "send", !.beat.begin = Clock(c)])
    /\ UNCHANGED <<now, pool, users>>
Beat(c) ==
    LET next == m[c].beat.count + 1
        known(pc) == [m[c] EXCEPT !.beat.pc = pc, !.beat.count = next]
        unknown == [m[c] EXCEPT !.beat.pc = "rest"]
    IN
    /\ m[c].beat.pc = "send"
    /\ IF Serves(c, Directory) /\ place[c] = [is |-> "live", beat |-> m[c].beat.count]
       THEN /\ place' = [place EXCEPT ![c].beat = next]
            /\ Set(c, known("answered")) \/ Set(c, unknown)
       ELSE /\ UNCHANGED place
            /\ IF Serves(c, Directory) /\ place[c] = [is |-> "live", beat |-> next]
               THEN Set(c, known(IF Bug = "old-heartbeat-renews" THEN "answered" ELSE "rest"))
               ELSE Set(c, [unknown EXCEPT !.lease = 0])
    /\ UNCHANGED <<now, record, owner, lock, fenced, users>>
Renewed(c) ==
    /\ m[c].beat.pc = "answered"
    /\ LET begin == IF Bug = "lease-from-the-answer" THEN Clock(c) ELSE m[c].beat.begin
       IN Set(c, [m[c] EXCEPT !.beat.pc = "rest", !.beat.begin = 0, !.lease = begin + Lease])
    /\ UNCHANGED <<now, pool, users>>

(* Looks at another member's heartbeat. Who has the same one for too long  *)
(* is taken for dead, unless it changes at this moment.                    *)
Look(c, d) ==
    LET seen == m[c].seen[d]
        is_new == seen.beat # place[d].beat
        is_late == ~is_new /\ Clock(c) - seen.at > Patience
    IN
    /\ "watch" \in Can[c] /\ c # d /\ m[c].watch = None
    /\ Serves(c, Directory) /\ IsLive(d)
    /\ is_new \/ is_late
    /\ Set(c, IF is_new
              THEN [m[c] EXCEPT !.seen[d] = [beat |-> place[d].beat, at |-> Clock(c)]]
              ELSE [m[c] EXCEPT !.watch = d])
    /\ UNCHANGED <<now, pool, users>>
DeclareDead(c) ==
    LET d == m[c].watch
        is_same == place[d].beat = m[c].seen[d].beat \/ Bug = "dead-despite-a-heartbeat"
    IN
    /\ d # None
    /\ place' = IF Serves(c, Directory) /\ IsLive(d) /\ is_same
                THEN [place EXCEPT ![d].is = "dead"] ELSE place
    /\ Set(c, [m[c] EXCEPT !.watch = None])
    /\ UNCHANGED <<now, record, owner, lock, fenced, users>>

Watch(c) ==
    Renew(c) \/ Beat(c) \/ Renewed(c) \/ (\E d \in Members : Look(c, d)) \/ DeclareDead(c)

-----------------------------------------------------------------------------
Tick ==
    /\ now < Last
    /\ now' = now + 1
    /\ UNCHANGED <<pool, m, users>>

Next == Tick \/ \E c \in Members : Operate(c) \/ Tend(c) \/ Watch(c)

(* Member 1 has the key.                                                   *)
Init ==
    /\ now = 0
    /\ record = 1 /\ owner = 1 /\ lock = None
    /\ place = [c \in Members |-> [is |-> "live", beat |-> 0]]
    /\ fenced = [at \in {Directory, Records} |-> {}]
    /\ m = [c \in Members |->
            [mine |-> c = 1, has |-> None, dirty |-> FALSE, lease |-> Lease,
             op |-> Rest, job |-> Idle,
             beat |-> [pc |-> "rest", count |-> 0, begin |-> 0],
             watch |-> None, seen |-> [d \in Members |-> [beat |-> 0, at |-> 0]]]]
    /\ writes = 1 /\ acked = 1 /\ hands = 0 /\ wrong = FALSE

Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* A read returns what was acknowledged before it began, or later changes. *)
NoStaleRead == ~wrong

(* An acknowledged write is in the pool, or in the cache of the owner,     *)
(* which will write it.                                                    *)
NoLostWrite ==
    \/ acked <= record
    \/ \E c \in Members : c = owner /\ m[c].dirty /\ acked <= m[c].has

(* No two members answer for the key from their caches.                    *)
OneServes ==
    \A c, d \in Members :
    c # d => ~(m[c].mine /\ InTime(c) /\ m[d].mine /\ InTime(d))

(* The owner is a member, or a dead one that somebody will bury.           *)
OwnerIsMember == owner = None \/ place[owner].is # "gone"
=============================================================================
