//! The server beside `redis-server`: requests a second, and CPU time of one request. Or the server
//! with several threads beside itself with one.
//!
//! ```text
//! cargo run --release -p timberline-server --example beside_redis -- [rounds N] [requests N]
//!     [keys N] [threads N] [beside redis|one] [commands set,get,...] [pipelines 16,1]
//! ```
//!
//! Each server runs on core 0 and `redis-benchmark` on core 1, one after the other, first one and
//! then the other. A server with several threads has core 1, too: if the client were elsewhere, two
//! cores would do 2 ÷ (CPU ÷ one thread's) times as much as one. CPU time is the whole process',
//! all its threads included, from `/proc/PID/stat`. Figures are medians of the rounds, with the
//! least and the greatest in brackets. Needs `redis-server`, `redis-benchmark` and `taskset`.

use std::fmt::Display;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use timberline_io::Kind;
use timberline_server::{Options, Server};

const MEMORY: u64 = 2 << 30;
const USAGE: &str = "possible: rounds N, requests N (at pipeline 16; a tenth at others), keys N, \
     threads N, beside redis or one, commands LIST of set, get, incr, zadd, mset, pipelines LIST";

/// What is measured.
struct Plan {
    rounds: usize,
    requests: u64,
    keys: u64,
    threads: usize,
    /// Threads of the server beside which it is measured; `None` if that is Redis.
    peer: Option<usize>,
    commands: Vec<String>,
    pipelines: Vec<u64>,
}

impl Plan {
    fn parse(words: &[String]) -> Result<Plan, String> {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut plan = Plan {
            rounds: 5,
            requests: 600_000,
            keys: 100_000,
            threads: 1,
            peer: None,
            commands: list("set,get,incr,zadd,mset"),
            pipelines: vec![16, 1],
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(format!("{word}? {USAGE}"))?;
            let number = || match value.parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(format!("{word} {value}: not a number above 0")),
            };
            match word.as_str() {
                "rounds" => plan.rounds = number()? as usize,
                "requests" => plan.requests = number()?,
                "keys" => plan.keys = number()?,
                "threads" => plan.threads = number()? as usize,
                "beside" => {
                    plan.peer = match value.as_str() {
                        "redis" => None,
                        "one" => Some(1),
                        _ => return Err(format!("beside {value}? {USAGE}")),
                    }
                }
                "commands" => plan.commands = list(value),
                "pipelines" => {
                    let depths = value.split(',').map(str::parse);
                    let depths: Result<_, _> = depths.collect();
                    plan.pipelines = depths.map_err(|_| format!("{word} {value}: no numbers"))?;
                }
                _ => return Err(format!("{word}? {USAGE}")),
            }
        }
        let known = ["set", "get", "incr", "zadd", "mset"];
        match plan
            .commands
            .iter()
            .find(|it| !known.contains(&it.as_str()))
        {
            Some(unknown) => Err(format!("{unknown}? {USAGE}")),
            None => Ok(plan),
        }
    }

    /// Requests of a run: fewer where each takes longer.
    fn requests(&self, command: &str, pipeline: u64) -> u64 {
        let requests = self.requests / if pipeline < 16 { 10 } else { 1 };
        (requests / if command == "mset" { 5 } else { 1 }).max(1)
    }
}

/// A server under way, in a folder of its own. It ends when it is dropped.
struct Running {
    process: Child,
    address: SocketAddr,
    folder: PathBuf,
}

/// What one run of the client showed.
struct Run {
    per_second: f64,
    /// CPU microseconds of a request.
    micros: f64,
}

fn fail(what: impl Display) -> String {
    what.to_string()
}

impl Running {
    /// Starts the server with this many threads, or `redis-server`.
    fn start(threads: Option<usize>) -> Result<Running, String> {
        let name = if threads.is_some() {
            "timberline"
        } else {
            "redis"
        };
        let free = std::net::TcpListener::bind("127.0.0.1:0").map_err(fail)?;
        let address = free.local_addr().map_err(fail)?;
        drop(free);
        let folder = format!("beside-redis-{}-{}", std::process::id(), address.port());
        let folder = std::env::temp_dir().join(folder);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(fail)?;
        let mut command = Command::new("taskset");
        let is_wide = threads.is_some_and(|it| it > 1);
        command.args(["-c", if is_wide { "0-1" } else { "0" }]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        match threads {
            Some(threads) => {
                let this = std::env::current_exe().map_err(fail)?;
                command.arg(this).arg("serve").arg(&folder);
                command.args([address.to_string(), threads.to_string()])
            }
            None => command.arg("redis-server").arg("--dir").arg(&folder).args([
                "--port",
                &address.port().to_string(),
                "--save",
                "",
                "--appendonly",
                "yes",
                "--appendfsync",
                "everysec",
            ]),
        };
        let process = command.spawn().map_err(|it| format!("{name}: {it}"))?;
        let mut running = Running {
            process,
            address,
            folder,
        };
        for _ in 0..600 {
            if TcpStream::connect(address).is_ok() {
                return Ok(running);
            }
            if let Ok(Some(status)) = running.process.try_wait() {
                return Err(format!("{name} ended: {status}"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!("{name} does not listen"))
    }

    /// Microseconds of CPU time that the process has used.
    fn micros(&self) -> Result<f64, String> {
        let stat = format!("/proc/{}/stat", self.process.id());
        let stat = std::fs::read_to_string(stat).map_err(fail)?;
        let fields = stat.rsplit(')').next().unwrap_or_default();
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|it| it.parse::<u64>().ok()).sum();
        // A tick is a hundredth of a second on all that this runs on.
        Ok(ticks as f64 * 10_000.0)
    }

    /// Resident bytes.
    fn resident(&self) -> u64 {
        let statm = format!("/proc/{}/statm", self.process.id());
        let statm = std::fs::read_to_string(statm).unwrap_or_default();
        let pages = statm
            .split(' ')
            .nth(1)
            .and_then(|it| it.parse::<u64>().ok());
        pages.unwrap_or(0) * 4096
    }

    /// Requests a second of `redis-benchmark`.
    fn ask(&self, command: &str, pipeline: u64, keys: u64, requests: u64) -> Result<f64, String> {
        let mut client = Command::new("taskset");
        client.args([
            "-c",
            "1",
            "redis-benchmark",
            "--csv",
            "-c",
            "50",
            "-d",
            "100",
        ]);
        client.args(["-p", &self.address.port().to_string(), "-t", command]);
        client.args(["-P", &pipeline.to_string(), "-n", &requests.to_string()]);
        client.args(["-r", &keys.to_string()]);
        let output = client
            .output()
            .map_err(|it| format!("redis-benchmark: {it}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let line = text.lines().find(|it| !it.starts_with("\"test\""));
        let figure = line.and_then(|it| it.split('"').nth(3)?.parse().ok());
        figure.ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            format!("redis-benchmark said: {text}{said}")
        })
    }

    fn run(&self, command: &str, pipeline: u64, plan: &Plan) -> Result<Run, String> {
        let requests = plan.requests(command, pipeline);
        let before = self.micros()?;
        let per_second = self.ask(command, pipeline, plan.keys, requests)?;
        let micros = (self.micros()? - before) / requests as f64;
        Ok(Run { per_second, micros })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The median, and the least and the greatest.
fn spread(mut values: Vec<f64>, digits: usize) -> String {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values[0], values[values.len() - 1]);
    let median = values[values.len() / 2];
    format!("{median:.digits$} ({low:.digits$}–{high:.digits$})")
}

/// Medians of the rounds, in which the servers take turns.
fn measure(plan: &Plan) -> Result<(), String> {
    let name = match plan.peer {
        Some(_) => "one thread's",
        None => "Redis'",
    };
    let ours = Running::start(Some(plan.threads))?;
    let servers = [ours, Running::start(plan.peer)?];
    // Keys to read, and one run to get ready.
    for server in &servers {
        for command in &plan.commands {
            server.ask(command, 16, plan.keys, plan.requests(command, 16))?;
        }
        server.ask("set", 16, plan.keys, 10 * plan.keys)?;
    }
    println!("| | P | requests ÷ {name} | CPU ÷ {name} | CPU, us | {name}, us | 1000/s | {name} |");
    println!("|---|---|---|---|---|---|---|---|");
    for &pipeline in &plan.pipelines {
        for command in &plan.commands {
            let mut runs = [Vec::new(), Vec::new()];
            for round in 0..plan.rounds {
                for turn in 0..2 {
                    let which = (round + turn) % 2;
                    runs[which].push(servers[which].run(command, pipeline, plan)?);
                }
            }
            let ratios = |of: fn(&Run) -> f64| {
                let pairs = runs[0].iter().zip(&runs[1]);
                spread(pairs.map(|(a, b)| of(a) / of(b)).collect(), 2)
            };
            let all = |which: usize, of: fn(&Run) -> f64, digits| {
                spread(runs[which].iter().map(of).collect(), digits)
            };
            let thousands = |run: &Run| run.per_second / 1000.0;
            println!(
                "| {} | {pipeline} | {} | {} | {} | {} | {} | {} |",
                command.to_uppercase(),
                ratios(|it| it.per_second),
                ratios(|it| it.micros),
                all(0, |it| it.micros, 2),
                all(1, |it| it.micros, 2),
                all(0, thousands, 0),
                all(1, thousands, 0),
            );
        }
    }
    let [ours, peer] = servers.each_ref().map(|it| it.resident() >> 20);
    println!("\nResident MiB at the end: {ours}, {name} {peer}.");
    Ok(())
}

/// The server itself, for the process that is started.
fn serve(folder: &str, address: &str, threads: &str, disk: Option<Kind>) -> Result<(), String> {
    let mut options = Options::new(folder);
    options.disk = disk;
    options.listen = vec![address.parse().map_err(fail)?];
    options.threads = threads.parse().map_err(fail)?;
    options.memory = MEMORY;
    Server::open(options).and_then(Server::run).map_err(fail)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match &words[..] {
        [first, folder, address, threads] if first == "serve" => {
            serve(folder, address, threads, None)
        }
        [first, folder, address, threads, disk] if first == "serve" && disk == "threads" => {
            serve(folder, address, threads, Some(Kind::Threads))
        }
        words => Plan::parse(words).and_then(|plan| measure(&plan)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}
