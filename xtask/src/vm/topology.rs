//! Machines with two kinds of memory, as arguments of QEMU and of the kernel.

/// The firmware's figures for the fast and the slow node.
pub const LATENCY_NS: [u64; 2] = [80, 250];
pub const BANDWIDTH_MBS: [u64; 2] = [102_400, 25_600];
/// Memory of each of the two, MiB. The slow node of `Hmat` begins where the fast one ends.
pub const MIB: u64 = 512;

/// Where the slow memory of a machine begins if it is above 4 GiB.
const HIGH: &str = "0x100000000";

/// How a machine's slow memory is presented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topology {
    /// A NUMA node without CPUs, with its speed in the firmware's HMAT.
    Hmat,
    /// The same, set aside by the firmware for special purposes, as CXL memory is; a driver hands
    /// it out.
    SoftReserved,
    /// A CXL expander that no firmware configured.
    Cxl,
}

impl Topology {
    /// Kernel modules to load, in this order.
    pub fn modules(self) -> &'static [&'static str] {
        match self {
            Topology::Hmat => &[],
            Topology::SoftReserved => &["dax/device_dax", "dax/hmem/dax_hmem", "dax/kmem"],
            Topology::Cxl => &[
                "cxl/cxl_acpi",
                "cxl/cxl_pci",
                "cxl/cxl_mem",
                "dax/device_dax",
                "dax/dax_cxl",
                "dax/kmem",
            ],
        }
    }

    /// The kernel's arguments.
    pub fn command_line(self) -> String {
        let general = "console=ttyS0 panic=-1 nokaslr norandmaps mitigations=off quiet loglevel=1";
        let hot_plugged = "memhp_default_state=online_movable";
        match self {
            Topology::Hmat => general.into(),
            Topology::SoftReserved => {
                format!("{general} {hot_plugged} memmap={MIB}M%{HIGH}-1+0xefffffff")
            }
            Topology::Cxl => format!("{general} {hot_plugged}"),
        }
    }

    /// QEMU's arguments.
    pub fn arguments(self) -> Vec<String> {
        let text = match self {
            Topology::Hmat => two_nodes("q35,hmat=on"),
            // The slow node has to begin above 4 GiB: no more than the fast one lies below.
            Topology::SoftReserved => two_nodes(&format!("q35,hmat=on,max-ram-below-4g={MIB}M")),
            Topology::Cxl => expander(),
        };
        text.split_whitespace().map(String::from).collect()
    }
}

fn two_nodes(machine: &str) -> String {
    let mut text = format!(
        "-cpu max -M {machine} -m {}M
         -object memory-backend-ram,id=m0,size={MIB}M -object memory-backend-ram,id=m1,size={MIB}M
         -numa node,nodeid=0,memdev=m0 -numa cpu,node-id=0,socket-id=0
         -numa node,nodeid=1,memdev=m1,initiator=0 -numa dist,src=0,dst=1,val=20",
        2 * MIB
    );
    for (node, (latency, bandwidth)) in LATENCY_NS.into_iter().zip(BANDWIDTH_MBS).enumerate() {
        let of = format!("hmat-lb,initiator=0,target={node},hierarchy=memory,data-type=access");
        text += &format!(" -numa {of}-latency,latency={latency}");
        text += &format!(" -numa {of}-bandwidth,bandwidth={bandwidth}M");
    }
    text
}

/// The kernel takes no orders for the memory's caches from a processor that says it is emulated.
fn expander() -> String {
    format!(
        "-cpu max,-hypervisor -M q35,cxl=on -m {MIB}M
         -object memory-backend-ram,id=m0,size={MIB}M -numa node,nodeid=0,memdev=m0 -numa cpu,node-id=0,socket-id=0
         -object memory-backend-ram,id=m1,size={MIB}M,share=on
         -device pxb-cxl,bus_nr=12,bus=pcie.0,id=cxl.1
         -device cxl-rp,port=0,bus=cxl.1,id=cxl.2,chassis=0,slot=2
         -device cxl-type3,bus=cxl.2,volatile-memdev=m1,id=cxl.3
         -M cxl-fmw.0.targets.0=cxl.1,cxl-fmw.0.size=4G"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_tells_the_speed_of_each_node() {
        let arguments = Topology::Hmat.arguments();
        let speeds = arguments.iter().filter(|word| word.starts_with("hmat-lb"));
        assert_eq!(speeds.count(), 4);
        assert!(arguments.contains(&"1024M".to_string()));
    }
}
