//! What explains an order that is not the published one.

/// SIDLE is behind.
pub const WORKERS: &str = "SIDLE's five workers have cores of their own there, and share them with the requests here: what they take is about \
    what the paper says (Table 3: 1.5 to 3 % of 28 threads, so most of a core), and on two cores that is up to a quarter of all CPU time (t3), \
    more than a better place for nodes wins back. By counts, which workers do not touch, its fast share is close to timberline's.";

/// Random is not far behind, or ahead.
pub const RANDOM: &str = "On a hot spot a node that was just touched is a hot one more often than not, so random's fast share is near that of the \
    others, and its moves take less CPU time than SIDLE's scans, which share the cores with the requests here.";

/// Another placement is ahead where the latest records are read, or records are read and written
/// back.
pub const LATEST: &str = "Where what was inserted last is read most (ycsb-d), what is hot moves on as fast as it is found, and copies of it are learned all the time: \
    likely what costs, not measured. Where records are read and written back (ycsb-f), a copy saves nothing, as the write goes to the leaf all the same; what is left is \
    the heat of leaves, which SIDLE has, too.";

/// The histogram loses something against fixed thresholds.
pub const HISTOGRAM: &str = "With fixed thresholds nothing moves any more once the hot nodes are fast; the histogram's follow the heat of the moment, so nodes keep \
    changing places, and the workers take about 29 instead of 23 % of two cores (Masstree, 2 M records).";

/// SIDLE takes longer to find a hot region again.
pub const SETTLING: &str = "A region that was hot stays hotter than the new one for a cooling or two, of 2 s each, and P_hot and P_cold move by one percent a turn, so \
    how long it takes depends on where they happen to stand.";

/// SIDLE's use of fast memory is below its watermarks.
pub const USE: &str = "U_f is use over what fast memory can hold, and Masstree's nodes and blocks have two sizes: free slots of one are no room for the other, up to a \
    fifth of fast memory. Use is told here over the budget.";
