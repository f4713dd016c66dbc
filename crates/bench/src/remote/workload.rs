//! The workloads of DEX's Table 1 (Lu et al.: "DEX", VLDB 2024).

use serde::{Deserialize, Serialize};

use crate::workload::Rng;

/// A mixture of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Gets.
    ReadOnly,
    /// 95 % gets, 5 % updates.
    ReadIntensive,
    /// Half gets, half updates.
    WriteIntensive,
    /// Half gets, half inserts.
    InsertIntensive,
    /// 95 % scans of 100 records, 5 % inserts.
    ScanIntensive,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Get,
    Update,
    Insert,
    Scan,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 5] = [
        Workload::ReadOnly,
        Workload::ReadIntensive,
        Workload::WriteIntensive,
        Workload::InsertIntensive,
        Workload::ScanIntensive,
    ];

    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Workload::ReadOnly => "read-only",
            Workload::ReadIntensive => "read-intensive",
            Workload::WriteIntensive => "write-intensive",
            Workload::InsertIntensive => "insert-intensive",
            Workload::ScanIntensive => "scan-intensive",
        }
    }

    pub(super) fn draw(self, draws: &mut Rng) -> Kind {
        let percent = |of| draws.unit() < of / 100.0;
        let mut percent = percent;
        match self {
            Workload::ReadOnly => Kind::Get,
            Workload::ReadIntensive if percent(5.0) => Kind::Update,
            Workload::WriteIntensive if percent(50.0) => Kind::Update,
            Workload::ReadIntensive | Workload::WriteIntensive => Kind::Get,
            Workload::InsertIntensive if percent(50.0) => Kind::Insert,
            Workload::InsertIntensive => Kind::Get,
            Workload::ScanIntensive if percent(5.0) => Kind::Insert,
            Workload::ScanIntensive => Kind::Scan,
        }
    }
}
