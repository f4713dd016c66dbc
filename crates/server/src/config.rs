//! Settings that `CONFIG` shows and changes, under Redis' names.

use std::net::IpAddr;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering, Ordering::Relaxed,
};
use std::sync::{Arc, RwLock};

use crate::Options;
use crate::acl::Users;
use crate::certificates::Certificates;
use crate::files;
use crate::memory::Memory;
use crate::resp::Limits;
use crate::slowlog::Slowlog;

/// The least that the process may be given.
const LEAST_MEMORY: u64 = 16 << 20;
/// The least that what a client may send can be limited to. Redis'.
const LEAST_LIMIT: u64 = 1 << 20;

/// What Redis can do when memory is used up.
const POLICIES: [&str; 8] = [
    "volatile-lru",
    "volatile-lfu",
    "volatile-random",
    "volatile-ttl",
    "allkeys-lru",
    "allkeys-lfu",
    "allkeys-random",
    "noeviction",
];

/// Settings.
pub(crate) struct Config {
    /// As the server was started.
    pub options: Options,
    /// The default user's password, as CONFIG shows it.
    password: RwLock<Option<String>>,
    pub users: Arc<Users>,
    /// With TLS.
    certificates: Option<Certificates>,
    protected: AtomicBool,
    pub max_clients: AtomicUsize,
    /// Bytes of memory for all of the process.
    pub memory: std::sync::Arc<Memory>,
    /// Bytes of one argument.
    max_bulk: AtomicUsize,
    /// Bytes that a client may send before they make a command.
    max_query: AtomicUsize,
    /// Seconds after which a client that sends nothing is disconnected; 0 is never.
    pub timeout: AtomicU64,
    slowlog: Arc<Slowlog>,
}

impl Config {
    pub fn new(
        options: Options,
        users: Users,
        certificates: Option<Certificates>,
        memory: Arc<Memory>,
        slowlog: Arc<Slowlog>,
    ) -> Config {
        Config {
            password: RwLock::new(options.password.clone()),
            users: Arc::new(users),
            certificates,
            protected: AtomicBool::new(options.protected),
            max_clients: AtomicUsize::new(options.max_clients),
            memory,
            max_bulk: AtomicUsize::new(512 << 20),
            max_query: AtomicUsize::new(1 << 30),
            timeout: AtomicU64::new(0),
            options,
            slowlog,
        }
    }

    /// The password that was set for the default user.
    pub fn password(&self) -> Option<String> {
        self.password
            .read()
            .unwrap_or_else(|it| it.into_inner())
            .clone()
    }

    /// Whether clients of this address are refused: only this machine's are served while there is
    /// no password, unless that is allowed.
    pub fn refuses(&self, address: IpAddr) -> bool {
        let is_protected = self.protected.load(Relaxed) && self.users.is_open();
        is_protected && !address.to_canonical().is_loopback()
    }

    /// The most that a client may send in one command.
    pub fn limits(&self) -> Limits {
        Limits {
            arguments: 1 << 20,
            bulk: self.max_bulk.load(Relaxed),
        }
    }

    /// Bytes that a client may send before they make a command: by default a quarter of the
    /// memory, as one client is not to take all of it.
    pub fn max_query(&self) -> usize {
        let memory = usize::try_from(self.memory.limit.load(Relaxed)).unwrap_or(usize::MAX);
        self.max_query.load(Relaxed).min(memory / 4)
    }

    /// All settings, by name.
    pub fn all(&self) -> Vec<(&'static str, String)> {
        let yes_no = |it: bool| if it { "yes" } else { "no" }.to_string();
        let options = &self.options;
        let listen = options.listen.iter();
        let addresses: Vec<String> = listen.map(|it| it.ip().to_string()).collect();
        let port = options.listen.first().map_or(0, |it| it.port());
        let tls_port = options.tls.iter().flat_map(|it| &it.listen).next();
        let tls_port = tls_port.map_or(0, |it| it.port());
        let slower = self.slowlog.slower_than.load(Relaxed);
        let certificates = self.certificates.iter().flat_map(Certificates::shown);
        let mut all = vec![
            (
                "aclfile",
                (options.acl_file.as_ref()).map_or(String::new(), |it| it.display().to_string()),
            ),
            ("appendfsync", options.durability.appendfsync().into()),
            ("appendonly", "no".into()),
            ("bind", addresses.join(" ")),
            ("client-output-buffer-limit", self.memory.unread.shown()),
            (
                "client-query-buffer-limit",
                self.max_query.load(Relaxed).to_string(),
            ),
            ("databases", "1".into()),
            ("dir", options.dir.display().to_string()),
            ("io-threads", options.threads.to_string()),
            ("maxclients", self.max_clients.load(Relaxed).to_string()),
            ("maxmemory", self.memory.limit.load(Relaxed).to_string()),
            ("maxmemory-policy", options.policy().into()),
            ("port", port.to_string()),
            (
                "proto-max-bulk-len",
                self.max_bulk.load(Relaxed).to_string(),
            ),
            ("protected-mode", yes_no(self.protected.load(Relaxed))),
            ("requirepass", self.password().unwrap_or_default()),
            ("save", String::new()),
            ("slowlog-log-slower-than", slower.to_string()),
            (
                "slowlog-max-len",
                self.slowlog.max_len.load(Relaxed).to_string(),
            ),
            ("timeout", self.timeout.load(Relaxed).to_string()),
            ("tls-port", tls_port.to_string()),
        ];
        all.extend(certificates);
        all
    }

    /// Changes settings, or returns the error to reply with, and then none is changed.
    pub fn set_all(&self, settings: &[(String, String)]) -> Result<(), String> {
        let is_before = |at: usize, name: &str| settings[..at].iter().any(|it| it.0 == name);
        let mut all = settings.iter().enumerate();
        if let Some((_, (twice, _))) = all.find(|(at, (name, _))| is_before(*at, name)) {
            return Err(failed(twice, "duplicate parameter"));
        }
        let names_a_file = |it: &&(String, String)| {
            self.certificates.is_some() && Certificates::SETTINGS.contains(&&*it.0)
        };
        let (files, others): (Vec<_>, Vec<_>) = settings.iter().partition(names_a_file);
        let changes = others.iter().map(|(name, value)| self.change(name, value));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        if let (Some(certificates), false) = (&self.certificates, files.is_empty()) {
            let changed = certificates.change(&files);
            changed.map_err(|(name, why)| failed(name, &why))?;
        }
        changes.into_iter().for_each(|change| change());
        Ok(())
    }

    /// What changes a setting, or the error to reply with.
    fn change<'a>(&'a self, name: &'a str, value: &'a str) -> Result<SetNow<'a>, String> {
        let failed = |why: &str| failed(name, why);
        let number = |least: i64, most: i64| match crate::resp::integer(value.as_bytes()) {
            Some(number) if (least..=most).contains(&number) => Ok(number),
            Some(_) => Err(failed(&between(least, most))),
            None => Err(failed("argument couldn't be parsed into an integer")),
        };
        // Not negative, so it is as many.
        let many = |least: i64, most: i64| number(least, most).map(i64::unsigned_abs);
        let bytes = || crate::options::bytes(value);
        // Less would be too little for ordinary commands. Redis' limit.
        let limit = || match bytes() {
            None => Err(failed("argument must be a memory value")),
            Some(..LEAST_LIMIT) => Err(failed(&between(LEAST_LIMIT as i64, i64::MAX))),
            Some(most) => Ok(usize::try_from(most).unwrap_or(usize::MAX)),
        };
        let yes_no = || match value {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(failed("argument must be 'yes' or 'no'")),
        };
        Ok(match name {
            "requirepass" => Box::new(move || {
                let password = (!value.is_empty()).then(|| value.to_string());
                self.users.require(password.as_deref());
                *self.password.write().unwrap_or_else(|it| it.into_inner()) = password;
            }),
            "protected-mode" => set(&self.protected, yes_no()?, AtomicBool::store),
            "maxclients" => {
                let most = usize::try_from(many(1, u32::MAX.into())?).unwrap_or(usize::MAX);
                if most > files::for_clients() {
                    return Err(failed(&format!(
                        "the limit of open files allows no more than {}",
                        files::for_clients()
                    )));
                }
                set(&self.max_clients, most, AtomicUsize::store)
            }
            "maxmemory" => {
                // Redis has no limit where it is 0; here there is always one.
                let least = "argument must be a memory value of at least 16mb";
                let most = bytes().filter(|it| *it >= LEAST_MEMORY);
                let most = most.ok_or_else(|| failed(least))?;
                set(&self.memory.limit, most, AtomicU64::store)
            }
            "proto-max-bulk-len" => set(&self.max_bulk, limit()?, AtomicUsize::store),
            "client-query-buffer-limit" => set(&self.max_query, limit()?, AtomicUsize::store),
            "client-output-buffer-limit" => {
                Box::new(self.memory.unread.change(value).map_err(failed)?)
            }
            "timeout" => set(&self.timeout, many(0, i32::MAX.into())?, AtomicU64::store),
            "slowlog-log-slower-than" => {
                let micros = number(-1, i64::MAX)?;
                set(&self.slowlog.slower_than, micros, AtomicI64::store)
            }
            "slowlog-max-len" => {
                let most = usize::try_from(many(0, i64::MAX)?).unwrap_or(usize::MAX);
                set(&self.slowlog.max_len, most, AtomicUsize::store)
            }
            // Only these values of them are true here.
            "save" if value.is_empty() => Box::new(|| ()),
            "appendonly" if !yes_no()? => Box::new(|| ()),
            "maxmemory-policy" if value == self.options.policy() => Box::new(|| ()),
            "maxmemory-policy" if !POLICIES.contains(&value) => {
                let all = POLICIES.join(", ");
                return Err(failed(&format!(
                    "argument(s) must be one of the following: {all}"
                )));
            }
            _ if self.all().iter().any(|it| it.0 == name) => {
                return Err(failed("can't set immutable config"));
            }
            _ => {
                return Err(format!(
                    "ERR Unknown option or number of arguments for CONFIG SET - '{name}'"
                ));
            }
        })
    }
}

/// Changes one setting.
type SetNow<'a> = Box<dyn FnOnce() + 'a>;

/// What stores this value of a setting.
fn set<'a, A, T: 'a>(setting: &'a A, value: T, store: fn(&A, T, Ordering)) -> SetNow<'a> {
    Box::new(move || store(setting, value, Relaxed))
}

fn between(least: i64, most: i64) -> String {
    format!("argument must be between {least} and {most} inclusive")
}

fn failed(name: &str, why: &str) -> String {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_other_machines_are_refused_while_there_is_no_password() {
        let options = Options::new("folder");
        let memory = Arc::new(Memory::new(options.memory));
        let users = Users::new(None, None);
        let config = Config::new(options, users, None, memory, Arc::default());
        let others = [
            "10.0.0.1",
            "192.168.1.7",
            "8.8.8.8",
            "fe80::1",
            "2001:db8::1",
        ];
        let others_in_six = ["::ffff:10.0.0.1", "0.0.0.0", "::"];
        let refused = |address: &&str| config.refuses(address.parse().unwrap());
        let all = || others.iter().chain(&others_in_six);
        assert!(all().all(refused));
        for own in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert!(!refused(&own), "{own}");
        }
        config.users.require(Some("secret"));
        assert!(!all().any(refused));
        config.users.require(None);
        assert!(all().all(refused));
        let off = ("protected-mode".to_owned(), "no".to_owned());
        config.set_all(&[off]).unwrap();
        assert!(!all().any(refused));
    }
}
