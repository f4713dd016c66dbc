//! Users: who may run which commands on which keys and channels. Rules, words and answers are
//! those of Redis' ACL; selectors are not there.
//!
//! A connection has an [`Account`], whose rights can change while it is connected. For an account
//! with all rights, which the default one is at first, a command tests one flag.

mod file;
mod log;
mod password;
mod rules;
mod user;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

pub(crate) use log::{Entry, Log, Reason};
pub(crate) use user::{Denied, User};

/// The name of the user that a connection has at first.
pub(crate) const DEFAULT: &[u8] = b"default";

/// A user with a name, of any number of connections.
pub(crate) struct Account {
    pub name: Box<[u8]>,
    /// Whether nothing is to be looked at.
    has_all_rights: AtomicBool,
    user: RwLock<Arc<User>>,
}

impl Account {
    fn new(name: &[u8], user: User) -> Arc<Account> {
        Arc::new(Account {
            name: name.into(),
            has_all_rights: AtomicBool::new(user.has_all_rights()),
            user: RwLock::new(Arc::new(user)),
        })
    }

    /// Whether it may do everything.
    pub fn has_all_rights(&self) -> bool {
        self.has_all_rights.load(Relaxed)
    }

    /// What it may do.
    pub fn user(&self) -> Arc<User> {
        let user = self.user.read().unwrap_or_else(|it| it.into_inner());
        Arc::clone(&user)
    }

    fn set(&self, user: User) {
        let has_all_rights = user.has_all_rights();
        *self.user.write().unwrap_or_else(|it| it.into_inner()) = Arc::new(user);
        self.has_all_rights.store(has_all_rights, Relaxed);
    }
}

type Accounts = BTreeMap<Box<[u8]>, Arc<Account>>;

/// All users.
pub(crate) struct Users {
    accounts: Mutex<Accounts>,
    default: Arc<Account>,
    file: Option<PathBuf>,
    /// What was refused.
    pub log: Log,
}

impl Users {
    /// The default user, who has all rights, with a password if there is one.
    pub fn new(password: Option<&str>, file: Option<PathBuf>) -> Users {
        let mut user = User::all_rights();
        user.require(password);
        let default = Account::new(DEFAULT, user);
        let accounts = BTreeMap::from([(DEFAULT.into(), Arc::clone(&default))]);
        Users {
            accounts: Mutex::new(accounts),
            default,
            file,
            log: Log::default(),
        }
    }

    /// The default user.
    pub fn default_account(&self) -> Arc<Account> {
        Arc::clone(&self.default)
    }

    /// Whether a connection needs no password.
    pub fn is_open(&self) -> bool {
        let user = self.default.user();
        user.is_on && user.needs_no_password
    }

    /// Has the default user give this password, or none.
    pub fn require(&self, password: Option<&str>) {
        let mut user = User::clone(&self.default.user());
        user.require(password);
        self.default.set(user);
    }

    /// The user of this name.
    pub fn get(&self, name: &[u8]) -> Option<Arc<Account>> {
        self.lock().get(name).cloned()
    }

    /// The user of this name, if that is its password and it is on.
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Arc<Account>> {
        let account = self.get(name)?;
        let user = account.user();
        (user.is_on && user.admits(password)).then_some(account)
    }

    /// All, by name.
    pub fn all(&self) -> Vec<Arc<Account>> {
        self.lock().values().cloned().collect()
    }

    /// Changes a user, or makes one. Nothing changes if one of the rules is wrong: an error for the
    /// client.
    pub fn set<'r>(
        &self,
        name: &[u8],
        rules: impl Iterator<Item = &'r [u8]>,
    ) -> Result<Arc<Account>, String> {
        let mut accounts = self.lock();
        let found = accounts.get(name).cloned();
        let mut user = match &found {
            Some(account) => User::clone(&account.user()),
            None => User::no_rights(),
        };
        for rule in rules {
            user.apply(rule).map_err(|why| {
                let rule = String::from_utf8_lossy(rule).into_owned();
                format!("Error in ACL SETUSER modifier '{rule}': {why}")
            })?;
        }
        let account = match found {
            Some(account) => {
                account.set(user);
                account
            }
            None => Account::new(name, user),
        };
        accounts.insert(name.into(), Arc::clone(&account));
        Ok(account)
    }

    /// Removes a user, whose connections the caller ends; they have no rights from now on.
    pub fn remove(&self, name: &[u8]) -> Option<Arc<Account>> {
        let account = self.lock().remove(name)?;
        account.set(User::no_rights());
        Some(account)
    }

    /// The file that they are loaded from and saved to.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Has the users be those of a file's text, or says what is wrong with it and changes none.
    /// Returns who is gone, whose connections the caller ends. The default user stays as it is if
    /// the file does not name it.
    pub fn load(&self, text: &str) -> Result<Vec<Arc<Account>>, String> {
        let loaded = file::parse(text)?;
        let mut accounts = self.lock();
        let mut gone = Vec::new();
        accounts.retain(|name, account| {
            let stays = loaded.contains_key(name) || **name == *DEFAULT;
            if !stays {
                account.set(User::no_rights());
                gone.push(Arc::clone(account));
            }
            stays
        });
        for (name, user) in loaded {
            match accounts.get(&name) {
                Some(account) => account.set(user),
                None => drop(accounts.insert(name.clone(), Account::new(&name, user))),
            }
        }
        Ok(gone)
    }

    /// All as lines of a file.
    pub fn lines(&self) -> Vec<Vec<u8>> {
        let line = |it: &Arc<Account>| [b"user ", &it.name[..], b" ", &it.user().rules()].concat();
        self.all().iter().map(line).collect()
    }

    /// Writes them to their file, whole or not at all.
    pub fn save(&self, to: &Path) -> std::io::Result<()> {
        file::write(to, &self.lines())
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(|it| it.into_inner())
    }
}
