//! A network to memory servers that is deterministic for a seed, with its own clock and executor.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};
use std::time::Duration;

use super::{Call, Completer, Completion, Fabric, Find, Operation, Reply, Tasks};
use crate::address::{ComputeId, ServerId};
use crate::error::{Error, Result};
use crate::pool::{MemoryServer, Session};

/// What the network and the servers are like. Chances are per operation, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Network {
    /// From start to completion of the smallest operation on an idle network, in nanoseconds.
    pub latency_ns: u64,
    /// By how much more an operation takes at most, drawn evenly, as a fraction of the latency. So
    /// operations that are under way together overtake each other.
    pub jitter: f64,
    /// Of each server's port, in each direction together, in bits a nanosecond (Gb/s).
    pub bits_per_ns: f64,
    /// Threads of each memory server that look for leaves.
    pub find_threads: u16,
    /// What looking for a leaf takes one of them: for the request and its answer, and for each
    /// node, in nanoseconds.
    pub find_ns: [u64; 2],
    /// An operation is lost on its way there: it is not done, and no answer comes.
    pub lost: f64,
    /// Its answer is lost: it is done, and no answer comes.
    pub unanswered: f64,
    /// After which an operation without an answer is given up, in nanoseconds.
    pub deadline_ns: u64,
}

impl Default for Network {
    /// 2 µs and 100 Gb/s without faults, as RDMA networks have; four threads that take 200 ns for a
    /// call and 300 ns for each node.
    fn default() -> Network {
        Network {
            latency_ns: 2_000,
            jitter: 0.0,
            bits_per_ns: 100.0,
            find_threads: 4,
            find_ns: [200, 300],
            lost: 0.0,
            unanswered: 0.0,
            deadline_ns: 1_000_000,
        }
    }
}

/// The network, its memory servers, and the clock. Clones are the same network; each
/// [`client`](Self::client) has a port of its own.
#[derive(Clone)]
pub struct Simulation {
    state: Arc<Mutex<State>>,
    servers: Arc<[MemoryServer]>,
}

/// No task can go on, and nothing is under way that could change that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stuck;

struct State {
    draws: fastrand::Rng,
    network: Network,
    now_ns: u64,
    events: BTreeMap<(u64, u64), Event>,
    started: u64,
    /// When the port of each memory server is idle again, and of each client. Ports serve in the
    /// order in which bytes reach them.
    server_ports: Vec<u64>,
    client_ports: Vec<u64>,
    /// When each thread that looks for leaves is idle again.
    finders: Vec<Vec<u64>>,
    dead: Vec<bool>,
}

enum Event {
    /// An operation arrives at its server. Reads and writes are carried out in two steps with this
    /// in between: the words that are done.
    Arrive(Box<UnderWay>),
    /// Its answer arrives at its client.
    Answer(Box<UnderWay>, Result<Reply>),
    Complete(Completer, Result<Reply>),
    Wake(Waker),
}

struct UnderWay {
    operation: Operation,
    completer: Completer,
    session: Arc<Session>,
    /// The client's.
    port: usize,
    /// For each of the two ways.
    latency_ns: u64,
    /// For which its bytes keep a port busy.
    busy_ns: u64,
    /// From when on the server's part is done and the answer has crossed the network; `None` before
    /// it has arrived at the server.
    answer_at_ns: Option<u64>,
    answered: bool,
    read: Vec<u64>,
    /// Words done, of a read or a write.
    done: usize,
}

/// A compute server's port.
struct Client {
    simulation: Simulation,
    port: usize,
    compute: ComputeId,
    /// With each memory server.
    sessions: Vec<Arc<Session>>,
    /// What its clock does while one second passes.
    clock_rate: f64,
}

impl Simulation {
    /// So many memory servers of so many bytes each. The seed determines all that is left to
    /// chance.
    ///
    /// # Errors
    /// The system refuses so much memory.
    pub fn new(
        seed: u64,
        network: Network,
        servers: ServerId,
        bytes_each: usize,
    ) -> Result<Simulation> {
        let servers = (0..servers).map(|_| MemoryServer::new(bytes_each));
        let servers: Arc<[_]> = servers.collect::<Result<_>>()?;
        Ok(Simulation {
            state: Arc::new(Mutex::new(State {
                draws: fastrand::Rng::with_seed(seed),
                network,
                now_ns: 0,
                events: BTreeMap::new(),
                started: 0,
                server_ports: vec![0; servers.len()],
                client_ports: Vec::new(),
                finders: vec![Vec::new(); servers.len()],
                dead: vec![false; servers.len()],
            })),
            servers,
        })
    }

    /// A compute server's way into this network.
    pub fn client(&self) -> Arc<dyn Fabric> {
        self.client_with_clock(1.0)
    }

    /// The same for a compute server whose clock runs at a rate other than 1.
    pub fn client_with_clock(&self, rate: f64) -> Arc<dyn Fabric> {
        let mut state = self.lock();
        state.client_ports.push(0);
        let number = state.client_ports.len();
        let compute = ComputeId::new(number as u64).expect("it is not 0");
        let sessions = self.servers.iter().map(|server| server.session(compute));
        Arc::new(Client {
            port: number - 1,
            compute,
            sessions: sessions.collect(),
            clock_rate: rate,
            simulation: self.clone(),
        })
    }

    /// Changes the network from now on.
    pub fn set_network(&self, network: Network) {
        self.lock().network = network;
    }

    /// A memory server answers no more; operations that have not arrived there are not done.
    pub fn kill(&self, server: ServerId) {
        self.lock().dead[usize::from(server)] = true;
    }

    /// Virtual time since the network was made, in nanoseconds. It goes on when no task can.
    pub fn now_ns(&self) -> u64 {
        self.lock().now_ns
    }

    /// Waits for so many nanoseconds of virtual time.
    pub async fn sleep(&self, ns: u64) {
        let until = self.now_ns() + ns;
        let mut is_set = false;
        poll_fn(|context| {
            let mut state = self.lock();
            if state.now_ns >= until {
                return Poll::Ready(());
            }
            if !is_set {
                is_set = true;
                state.push(until, Event::Wake(context.waker().clone()));
            }
            Poll::Pending
        })
        .await;
    }

    /// Runs tasks until the first of them is complete, and returns its number; the others are left
    /// in `tasks`. Which of those that can go on does is drawn by chance.
    ///
    /// # Errors
    /// None of them can ever go on.
    pub fn run(&self, tasks: &mut Tasks<'_>) -> std::result::Result<usize, Stuck> {
        loop {
            let ready = tasks.take_ready(&mut self.lock().draws);
            if let Some(number) = ready {
                if tasks.poll(number).is_ready() {
                    return Ok(number);
                }
            } else if !self.step() {
                return Err(Stuck);
            }
        }
    }

    /// Runs one task to its end.
    ///
    /// # Errors
    /// It can never go on.
    pub fn block_on<T>(&self, task: impl Future<Output = T>) -> std::result::Result<T, Stuck> {
        let mut result = None;
        let mut tasks = Tasks::default();
        tasks.add(async { result = Some(task.await) });
        self.run(&mut tasks)?;
        drop(tasks);
        Ok(result.expect("the task is complete"))
    }

    /// The next event, if there is one.
    fn step(&self) -> bool {
        let mut state = self.lock();
        let Some(((due_ns, _), event)) = state.events.pop_first() else {
            return false;
        };
        state.now_ns = state.now_ns.max(due_ns);
        match event {
            Event::Wake(waker) => {
                drop(state);
                waker.wake();
            }
            Event::Complete(completer, result) => {
                drop(state);
                completer.complete(result);
            }
            Event::Answer(under_way, result) => {
                let free_ns = state.receive(&under_way);
                state.push(free_ns, Event::Complete(under_way.completer, result));
            }
            Event::Arrive(under_way) => {
                let server = usize::from(under_way.operation.server());
                if !state.dead[server] {
                    state.carry_out(under_way, &self.servers[server]);
                }
            }
        }
        true
    }

    fn start(&self, client: &Client, operation: Operation) -> Completion {
        let server = operation.server();
        let mut state = self.lock();
        let (completion, completer) = Completion::pending();
        let Some(session) = client.sessions.get(usize::from(server)) else {
            return Completion::ready(Err(Error::NoServer(server)));
        };
        let network = state.network;
        let extra = network.latency_ns as f64 * network.jitter * state.draws.f64();
        let lost = state.draws.f64() < network.lost;
        let given_up = completer.clone();
        let under_way = Box::new(UnderWay {
            completer,
            session: Arc::clone(session),
            port: client.port,
            latency_ns: (network.latency_ns + extra as u64) / 2,
            busy_ns: (operation.bytes() as f64 * 8.0 / network.bits_per_ns) as u64,
            answer_at_ns: None,
            answered: state.draws.f64() >= network.unanswered,
            read: Vec::new(),
            done: 0,
            operation,
        });
        let arrive_at_ns = state.send(&under_way) + under_way.latency_ns;
        let deadline_ns = state.now_ns + state.network.deadline_ns;
        state.push(
            deadline_ns,
            Event::Complete(given_up, Err(Error::TimedOut(server))),
        );
        if !lost {
            state.push(arrive_at_ns, Event::Arrive(under_way));
        }
        completion
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|it| it.into_inner())
    }
}

impl State {
    fn push(&mut self, at_ns: u64, event: Event) {
        self.started += 1;
        self.events.insert((at_ns, self.started), event);
    }

    /// When an operation has left its client. Data that it writes keeps the client's port busy.
    fn send(&mut self, under_way: &UnderWay) -> u64 {
        if under_way.operation.writes().next().is_none() {
            return self.now_ns;
        }
        let port = &mut self.client_ports[under_way.port];
        *port = self.now_ns.max(*port) + under_way.busy_ns;
        *port
    }

    /// When an answer that begins to arrive is complete. Data that was read keeps the client's
    /// port busy, and did so while it was sent.
    fn receive(&mut self, under_way: &UnderWay) -> u64 {
        let UnderWay { port, busy_ns, .. } = *under_way;
        if !matches!(under_way.operation, Operation::Read(..)) {
            return self.now_ns;
        }
        let port = &mut self.client_ports[port];
        let begin_ns = self.now_ns.saturating_sub(busy_ns).max(*port);
        *port = begin_ns + busy_ns;
        *port
    }

    /// When the answer of an operation that has arrived is at its client: data in either direction
    /// keeps the server's port busy.
    fn serve(&mut self, under_way: &UnderWay) -> u64 {
        let port = &mut self.server_ports[usize::from(under_way.operation.server())];
        *port = self.now_ns.max(*port) + under_way.busy_ns;
        *port + under_way.latency_ns
    }

    /// When a thread of a memory server has found a leaf.
    fn find(&mut self, find: &Find) -> u64 {
        let Network {
            find_threads,
            find_ns: [call_ns, node_ns],
            ..
        } = self.network;
        let threads = &mut self.finders[usize::from(find.from.server())];
        threads.resize(find_threads.max(1).into(), 0);
        let idle = threads.iter_mut().min().expect("there is a thread");
        let nodes = u64::from(find.height) + 1;
        *idle = self.now_ns.max(*idle) + call_ns + nodes * node_ns;
        *idle
    }

    /// Carries out what has arrived, or the first part of its words.
    fn carry_out(&mut self, mut under_way: Box<UnderWay>, server: &MemoryServer) {
        if let Operation::Call(_, Call::Find(find)) = under_way.operation
            && under_way.answer_at_ns.is_none()
        {
            let found_at_ns = self.find(&find);
            under_way.answer_at_ns = Some(found_at_ns + under_way.latency_ns);
            return self.push(found_at_ns, Event::Arrive(under_way));
        }
        let answer_at_ns = match under_way.answer_at_ns {
            Some(at_ns) => at_ns,
            None => *under_way.answer_at_ns.insert(self.serve(&under_way)),
        };
        if under_way.done == 0 && under_way.session.is_fenced() {
            return self.answer(under_way, Err(Error::Fenced));
        }
        let rest = |words: usize| words - under_way.done;
        let result = match &under_way.operation {
            Operation::Read(at, words) => {
                let now = self.part(rest(*words));
                let result = server.read(at.add(8 * under_way.done as u64), now);
                result.map(|words| {
                    under_way.done += now;
                    under_way.read.extend(words);
                })
            }
            write @ (Operation::Write(..) | Operation::WriteInOrder(_)) => {
                let now = self.part(rest(write.written_words()));
                let result = server.write_part(write, under_way.done, now);
                under_way.done += now;
                result
            }
            other => {
                let result = server.perform(&under_way.session, other);
                if let (Operation::Call(_, Call::Fence(compute)), Ok(_)) = (other, &result) {
                    self.finish_writes(server, &server.session(*compute));
                }
                return self.answer(under_way, result);
            }
        };
        let reply = match (&under_way.operation, result) {
            (_, Err(error)) => Err(error),
            (Operation::Read(_, words), _) if under_way.done == *words => {
                Ok(Reply::Words(std::mem::take(&mut under_way.read)))
            }
            (Operation::Write(..) | Operation::WriteInOrder(_), _)
                if under_way.done == under_way.operation.written_words() =>
            {
                Ok(Reply::Written)
            }
            _ => {
                let latest_ns = answer_at_ns.max(self.now_ns);
                let at_ns = self.draws.u64(self.now_ns..=latest_ns);
                self.push(at_ns, Event::Arrive(under_way));
                return;
            }
        };
        self.answer(under_way, reply);
    }

    /// A fence waits for what has begun: the rest of these writes is done now.
    fn finish_writes(&mut self, server: &MemoryServer, fenced: &Arc<Session>) {
        self.events.retain(|_, event| match event {
            Event::Arrive(it) if it.done > 0 && Arc::ptr_eq(&it.session, fenced) => {
                let rest = it.operation.written_words().saturating_sub(it.done);
                // It was within the memory when the first part was written.
                let _ = server.write_part(&it.operation, it.done, rest);
                false
            }
            _ => true,
        });
    }

    /// How many of these words are transferred now.
    fn part(&mut self, words: usize) -> usize {
        // Half of all operations are torn, at any place.
        if words > 1 && self.network.jitter > 0.0 && self.draws.bool() {
            self.draws.usize(1..words)
        } else {
            words
        }
    }

    fn answer(&mut self, under_way: Box<UnderWay>, result: Result<Reply>) {
        if under_way.answered {
            let at_ns = under_way.answer_at_ns.unwrap_or(0).max(self.now_ns);
            self.push(at_ns, Event::Answer(under_way, result));
        }
    }
}

impl Fabric for Client {
    fn servers(&self) -> ServerId {
        self.simulation.servers.len() as ServerId
    }

    fn compute(&self) -> ComputeId {
        self.compute
    }

    fn now(&self) -> Duration {
        Duration::from_nanos(self.simulation.now_ns()).mul_f64(self.clock_rate)
    }

    fn start(&self, operation: Operation) -> Completion {
        self.simulation.start(self, operation)
    }
}
