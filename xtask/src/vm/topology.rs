//! Machines with two or three kinds of memory, as arguments of QEMU and of the kernel.

/// The firmware's figures for each node, fastest first: DRAM, CXL memory, and memory of another
/// host. Machines with two nodes have the first two.
pub const LATENCY_NS: [u64; 3] = [80, 250, 1000];
pub const BANDWIDTH_MBS: [u64; 3] = [102_400, 25_600, 12_800];
/// The distances from the first node, by the firmware's other table.
const DISTANCES: [u64; 3] = [10, 20, 40];
/// Memory of each node, MiB. A node of `Hmat` begins where the one before ends.
pub const MIB: u64 = 512;

/// Where the slow memory of a machine begins if it is above 4 GiB.
const HIGH: &str = "0x100000000";

/// How a machine's slow memory is presented.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topology {
    /// A NUMA node without CPUs, with its speed in the firmware's HMAT.
    Hmat,
    /// Two such nodes, one slower than the other.
    ThreeNodes,
    /// As `Hmat`, but set aside by the firmware for special purposes, as CXL memory is; a driver
    /// hands it out.
    SoftReserved,
    /// A CXL expander that no firmware configured.
    Cxl,
}

impl Topology {
    /// Kernel modules to load, in this order.
    pub fn modules(self) -> &'static [&'static str] {
        match self {
            Topology::Hmat | Topology::ThreeNodes => &[],
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
            Topology::Hmat | Topology::ThreeNodes => general.into(),
            Topology::SoftReserved => {
                format!("{general} {hot_plugged} memmap={MIB}M%{HIGH}-1+0xefffffff")
            }
            Topology::Cxl => format!("{general} {hot_plugged}"),
        }
    }

    /// QEMU's arguments.
    pub fn arguments(self) -> Vec<String> {
        let text = match self {
            Topology::Hmat => nodes(2, "q35,hmat=on"),
            Topology::ThreeNodes => nodes(3, "q35,hmat=on"),
            // The slow node has to begin above 4 GiB: no more than the fast one lies below.
            Topology::SoftReserved => nodes(2, &format!("q35,hmat=on,max-ram-below-4g={MIB}M")),
            Topology::Cxl => expander(),
        };
        text.split_whitespace().map(String::from).collect()
    }
}

/// A node with processors, and slower ones without.
fn nodes(count: usize, machine: &str) -> String {
    let mut text = format!("-cpu max -M {machine} -m {}M", count as u64 * MIB);
    for node in 0..count {
        text += &format!(" -object memory-backend-ram,id=m{node},size={MIB}M");
    }
    text += " -numa node,nodeid=0,memdev=m0 -numa cpu,node-id=0,socket-id=0";
    for node in 1..count {
        text += &format!(" -numa node,nodeid={node},memdev=m{node},initiator=0");
    }
    // QEMU wants all of them if it is told one.
    for (to, far) in DISTANCES.iter().enumerate().take(count) {
        for from in 0..to {
            text += &format!(" -numa dist,src={from},dst={to},val={far}");
        }
    }
    let speeds = LATENCY_NS.into_iter().zip(BANDWIDTH_MBS).take(count);
    for (node, (latency, bandwidth)) in speeds.enumerate() {
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
        for (topology, nodes, memory) in [
            (Topology::Hmat, 2, "1024M"),
            (Topology::ThreeNodes, 3, "1536M"),
        ] {
            let arguments = topology.arguments();
            let count = |what: &str| arguments.iter().filter(|it| it.starts_with(what)).count();
            assert_eq!(count("hmat-lb"), 2 * nodes);
            assert_eq!(count("node,nodeid="), nodes);
            assert_eq!(count("dist,"), nodes * (nodes - 1) / 2);
            assert!(arguments.contains(&memory.to_string()));
        }
    }
}
