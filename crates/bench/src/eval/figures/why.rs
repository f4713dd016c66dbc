//! Explanations for orders that contradict the published ones.

/// SIDLE is behind.
pub const WORKERS: &str = "In the paper, SIDLE's five workers have cores of their own; here they share cores with the requests. \
    Their CPU time is about the paper's (Table 3: 1.5 to 3 % of 28 threads, so most of a core). On two cores that is up to \
    a quarter of all CPU time (t3), more than better placement wins back. Its fast share, a count, is close to timberline's.";

/// Random is close behind, or ahead.
pub const RANDOM: &str = "On a hot spot, a node that was just accessed is usually hot, so random's fast share is close to that of the \
    others. Its moves take less CPU time than SIDLE's scans, which share the cores with the requests here.";

/// Another placement leads if requests read the latest records, or read and write records back.
pub const LATEST: &str = "If requests read the latest records most (ycsb-d), the hot set moves on as fast as it is found, and record copies are made \
    all the time: likely the reason, but not measured. If records are read and written back (ycsb-f), a copy saves nothing, because the write \
    goes to the leaf; only the heat of leaves is left, which SIDLE tracks, too.";

/// The histogram falls behind fixed thresholds.
pub const HISTOGRAM: &str = "With fixed thresholds, migration stops once the hot nodes are fast. The histogram's thresholds follow the current heat, so nodes keep \
    changing places, and the workers take about 29 instead of 23 % of two cores (Masstree, 2 M records).";

/// SIDLE takes longer to find the new hot region.
pub const SETTLING: &str = "A formerly hot region stays hotter than the new one for one or two coolings of 2 s each, and P_hot and P_cold move by one percent a step. \
    So the recovery time depends on their current values.";

/// SIDLE's use of fast memory is below its watermarks.
pub const USE: &str = "U_f is use over the capacity of fast memory. Masstree's nodes and blocks have two sizes, and free slots of one size cannot hold the other: \
    up to a fifth of fast memory. Use is shown here over the budget.";
