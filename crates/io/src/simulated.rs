//! Requests to a simulated disk. They end in an order that the simulation draws.

use std::collections::BTreeMap;

use crate::Simulation;
use crate::queue::{Queue, Request, Ticket};

/// The requests of one driver. Those of a program that ended without its driver's end are never
/// carried out, whatever disk the next one opens.
pub(crate) struct Simulated {
    simulation: Simulation,
    /// By the time at which each ends.
    under_way: BTreeMap<(u64, Ticket), Request>,
}

impl Simulated {
    pub fn new(simulation: Simulation) -> Simulated {
        Simulated {
            simulation,
            under_way: BTreeMap::new(),
        }
    }

    /// Begins the requests that wait and ends the one that completes first. Says whether there was
    /// any.
    pub fn turn(&mut self, queue: &Queue) -> bool {
        while let Some((ticket, request)) = queue.take() {
            let due_ns = self.simulation.draw_due_ns();
            self.under_way.insert((due_ns, ticket), request);
        }
        let Some(((due_ns, ticket), request)) = self.under_way.pop_first() else {
            return false;
        };
        self.simulation.pass(due_ns);
        request.carry_out(ticket, queue);
        true
    }

    /// Fails the requests under way: nobody is to carry them out any more.
    pub fn give_up(&mut self, queue: &Queue) {
        for ((_, ticket), request) in std::mem::take(&mut self.under_way) {
            request.fail(ticket, queue);
        }
    }
}
