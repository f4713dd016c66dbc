//! Clients that read and write the same few keys at once: each key's history is linearizable.

mod client;
#[path = "../../remote/tests/linear/mod.rs"]
mod linear;

use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use client::{Client, Folder, Running, encoded};
use fastrand::Rng;
use linear::{Answer, Event, Op, is_contended, judge};
use timberline_server::Durability;

const CLIENTS: u64 = 4;
/// Keys that a round is about, which nothing was done to before.
const KEYS: u64 = 3;
/// How often a client sends something in a round, and the most commands of that.
const TURNS: u64 = 8;
const AT_ONCE: u64 = 4;
const ROUNDS: u64 = 60;

/// A command that the server answers by itself.
#[derive(Clone, Copy)]
enum Command {
    Get,
    Set,
    /// SET with NX.
    SetNew,
    /// SET with GET.
    Replace,
    Increment,
    Remove,
}

impl Command {
    fn draw(rng: &mut Rng) -> Command {
        match rng.u8(0..16) {
            0..5 => Command::Get,
            5..8 => Command::Set,
            8 | 9 => Command::SetNew,
            10 | 11 => Command::Replace,
            12..14 => Command::Increment,
            _ => Command::Remove,
        }
    }

    fn encode(self, key: u64, new: u64) -> Vec<u8> {
        let [key, new] = [key, new].map(|it| it.to_string());
        let args = match self {
            Command::Get => vec!["GET", &key],
            Command::Set => vec!["SET", &key, &new],
            Command::SetNew => vec!["SET", &key, &new, "NX"],
            Command::Replace => vec!["SET", &key, &new, "GET"],
            Command::Increment => vec!["INCR", &key],
            Command::Remove => vec!["DEL", &key],
        };
        let args: Vec<&[u8]> = args.iter().map(|it| it.as_bytes()).collect();
        encoded(&args)
    }

    /// What it was to the key, and what the reply says.
    fn meaning(self, new: u64, reply: &[u8]) -> (Op, Answer) {
        match self {
            Command::Get => (Op::Get, Answer::Was(text(reply))),
            Command::Set => {
                assert_eq!(reply, b"+OK\r\n");
                (Op::Insert(new), Answer::Done)
            }
            Command::SetNew if reply == b"$-1\r\n" => (Op::Get, Answer::WasThere(true)),
            Command::SetNew => {
                assert_eq!(reply, b"+OK\r\n");
                (Op::Exchange(None, Some(new)), Answer::Exchanged)
            }
            Command::Replace => (Op::Insert(new), Answer::Was(text(reply))),
            Command::Increment => (Op::Increment, Answer::Is(integer(reply))),
            Command::Remove => (Op::Remove, Answer::WasThere(integer(reply) == 1)),
        }
    }
}

fn integer(reply: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(reply);
    let digits = text.trim_start_matches(':').trim_end();
    digits.parse().unwrap_or_else(|_| panic!("{text}"))
}

/// The number in a bulk reply.
fn text(reply: &[u8]) -> Option<u64> {
    let text = String::from_utf8_lossy(reply);
    if text == "$-1\r\n" {
        return None;
    }
    let number = text.lines().nth(1).and_then(|it| it.parse().ok());
    Some(number.unwrap_or_else(|| panic!("{text}")))
}

/// A client, its draws, and the clock of all.
struct Part<'a> {
    client: Client<TcpStream>,
    rng: Rng,
    clock: &'a AtomicU64,
    events: Vec<Event>,
}

impl Part<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, SeqCst)
    }

    fn note(&mut self, key: u64, (op, answer): (Op, Answer), begin: u64) {
        let end = self.now();
        self.events.push(Event {
            key,
            op,
            begin,
            end,
            answer: Some(answer),
        });
    }

    /// Some commands that are sent at once.
    fn send_some(&mut self, round: u64, new: u64) {
        let (mut sent, mut commands) = (Vec::new(), Vec::new());
        for nth in 0..self.rng.u64(1..=AT_ONCE) {
            let key = round * KEYS + self.rng.u64(0..KEYS);
            let command = (Command::draw(&mut self.rng), key, new + nth * 1_000);
            sent.extend(command.0.encode(command.1, command.2));
            commands.push(command);
        }
        let begin = self.now();
        self.client.send(&sent);
        for (command, key, new) in commands {
            let reply = self.client.reply();
            self.note(key, command.meaning(new, &reply), begin);
        }
    }

    /// Reads a key, and sets it if nobody did meanwhile: that is one exchange, if it is done.
    fn exchange(&mut self, key: u64, new: u64) {
        let begin = self.now();
        assert_eq!(self.client.says(&format!("WATCH {key}")), "+OK\r\n");
        let found = text(&self.client.ask(&format!("GET {key}")));
        self.note(key, (Op::Get, Answer::Was(found)), begin);
        assert_eq!(self.client.says("MULTI"), "+OK\r\n");
        let queued = self.client.says(&format!("SET {key} {new}"));
        assert_eq!(queued, "+QUEUED\r\n");
        let begin = self.now();
        match self.client.says("EXEC").as_str() {
            "*1\r\n+OK\r\n" => {
                let op = Op::Exchange(found, Some(new));
                self.note(key, (op, Answer::Exchanged), begin);
            }
            refused => assert_eq!(refused, "*-1\r\n"),
        }
    }
}

#[test]
fn histories_of_clients_are_linearizable() {
    let (mut met, mut exchanged) = (0, 0);
    for durability in [Durability::None, Durability::Each] {
        let folder = Folder::new();
        let server = Running::with(&folder, |it| it.durability = durability);
        for round in 0..ROUNDS {
            let clock = AtomicU64::new(0);
            let events: Vec<Event> = std::thread::scope(|scope| {
                let clients: Vec<_> = (0..CLIENTS)
                    .map(|id| {
                        let mut part = Part {
                            client: server.client(),
                            rng: Rng::with_seed(round * CLIENTS + id),
                            clock: &clock,
                            events: Vec::new(),
                        };
                        scope.spawn(move || {
                            for turn in 0..TURNS {
                                // Far enough from one another to be incremented.
                                let new = (id * TURNS + turn + 1) * AT_ONCE * 1_000;
                                match part.rng.u8(0..3) {
                                    0 => {
                                        let key = round * KEYS + part.rng.u64(0..KEYS);
                                        part.exchange(key, new);
                                    }
                                    _ => part.send_some(round, new),
                                }
                            }
                            part.events
                        })
                    })
                    .collect();
                let events = clients.into_iter().flat_map(|it| it.join().unwrap());
                events.collect()
            });
            judge(&events).unwrap_or_else(|why| panic!("{durability:?}, round {round}: {why}"));
            met += usize::from(is_contended(&events));
            let done = |it: &&Event| matches!(it.op, Op::Exchange(Some(_), _));
            exchanged += events.iter().filter(done).count();
        }
        server.stop();
    }
    println!("clients met in {met} rounds; {exchanged} values were exchanged");
    assert!(met > 0 && exchanged > 0);
}
