//! What was measured in a run.

use serde::{Deserialize, Serialize};

use super::setting::Setting;
use super::subject::{Row, Subject};
use crate::report::{Meta, Report};

/// A run with its results, as the [cache](super::ResultCache) has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CachedRun {
    pub setting: Setting,
    #[serde(flatten)]
    pub results: Results,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Results {
    /// Of placements.
    Report(Report),
    /// Of anything else.
    Table(Table),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    pub meta: Meta,
    pub substitute: Substitute,
    pub rows: Vec<Row>,
}

/// What stands for hardware that most machines do not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Substitute {
    /// Slow memory is emulated.
    Emulated,
    /// A cluster and its network are simulated, with a clock of their own: operations are counted
    /// exactly, and throughput is modelled.
    Simulated,
}

impl Results {
    pub fn meta(&self) -> &Meta {
        match self {
            Results::Report(report) => &report.meta,
            Results::Table(table) => &table.meta,
        }
    }

    /// Those that were compared, in their order.
    pub fn subjects(&self) -> Vec<Subject<'_>> {
        match self {
            Results::Report(report) => report.results.iter().map(Subject::Placement).collect(),
            Results::Table(table) => table.rows.iter().map(Subject::Row).collect(),
        }
    }

    /// `None` if all of it was real.
    pub fn substitute(&self) -> Option<Substitute> {
        match self {
            Results::Report(report) => report.emulated().then_some(Substitute::Emulated),
            Results::Table(table) => Some(table.substitute),
        }
    }
}
