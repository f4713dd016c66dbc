//! Hosts: network namespaces whose links lead to one bridge.

use std::process::{Command, Stdio};

/// The namespace of the bridge, and those of hosts. They are removed with this.
pub struct Net {
    name: String,
    hosts: u8,
}

/// A host, with an address of its own.
#[derive(Clone)]
pub struct Host {
    hub: String,
    space: String,
    number: u8,
}

impl Net {
    /// So many hosts.
    ///
    /// # Errors
    /// Why this machine cannot have them: `ip` is not installed, or may not do this.
    pub fn new(hosts: u8) -> Result<Net, String> {
        let name = format!("timberline-{}", std::process::id());
        let net = Net { name, hosts };
        let hub = net.hub();
        ip(&format!("netns add {hub}"))?;
        ip(&format!("-n {hub} link set lo up"))?;
        ip(&format!("-n {hub} link add bridge type bridge"))?;
        ip(&format!("-n {hub} addr add 10.77.0.254/24 dev bridge"))?;
        ip(&format!("-n {hub} link set dev bridge up"))?;
        for Host { space, number, .. } in net.all() {
            ip(&format!("netns add {space}"))?;
            ip(&format!("-n {space} link set lo up"))?;
            let pair = format!("type veth peer name eth0 netns {space}");
            ip(&format!("-n {hub} link add to{number} {pair}"))?;
            ip(&format!("-n {space} addr add 10.77.0.{number}/24 dev eth0"))?;
            ip(&format!("-n {space} link set dev eth0 up"))?;
            ip(&format!(
                "-n {hub} link set dev to{number} master bridge up"
            ))?;
        }
        Ok(net)
    }

    /// The namespace from which all hosts can be reached whose links are up.
    pub fn hub(&self) -> String {
        format!("{}-hub", self.name)
    }

    fn all(&self) -> impl Iterator<Item = Host> {
        (1..=self.hosts).map(|number| Host {
            hub: self.hub(),
            space: format!("{}-{number}", self.name),
            number,
        })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        let spaces = self.all().map(|it| it.space).chain([self.hub()]);
        for space in spaces {
            // It may not be there.
            let _ = ip(&format!("netns del {space}"));
        }
    }
}

impl Host {
    /// A host of the net with this hub, counted from 1.
    pub fn of(hub: &str, number: u8) -> Host {
        let name = hub.trim_end_matches("-hub");
        Host {
            hub: hub.into(),
            space: format!("{name}-{number}"),
            number,
        }
    }

    /// Its address, with a port.
    pub fn address(&self, port: u16) -> String {
        format!("10.77.0.{}:{port}", self.number)
    }

    /// What runs a command there.
    pub fn runs(&self, command: &Command) -> Command {
        within(&self.space, command)
    }

    /// Cuts its link.
    pub fn cut(&self) {
        self.set("down");
    }

    /// Joins it again.
    pub fn join(&self) {
        self.set("up");
    }

    fn set(&self, state: &str) {
        let Host { hub, number, .. } = self;
        ip(&format!("-n {hub} link set dev to{number} {state}")).unwrap();
    }
}

/// What runs a command in a namespace.
pub fn within(space: &str, command: &Command) -> Command {
    let mut ip = Command::new("ip");
    ip.args(["netns", "exec", space]).arg(command.get_program());
    ip.args(command.get_args()).stdin(Stdio::null());
    ip
}

fn ip(args: &str) -> Result<(), String> {
    let mut ip = Command::new("ip");
    let output = ip.args(args.split(' ')).output();
    let output = output.map_err(|error| format!("ip, of iproute2: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!("ip {args}: {}", said.trim().replace('\n', "; ")))
        }
    }
}
