//! The cheapest processors, DIMMs and CXL devices for a capacity (the cost study of Weisgut et al.,
//! §7).
//!
//! Large DIMMs cost more a byte than small ones. A server that needs more memory than small DIMMs
//! in all slots give pays for large ones in all slots, or for a further processor with its slots.
//! Devices on CXL add capacity at the price of small DIMMs.

/// A size of DIMM. All slots of a server have the same.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dimm {
    /// Capacity, in GiB.
    pub gib: f64,
    /// Price of a GiB.
    pub price_per_gib: f64,
}

/// What a server can be made of, and the prices, in any currency.
#[derive(Clone, PartialEq, Debug)]
pub struct Parts {
    /// Price of a processor.
    pub processor: f64,
    /// Processors of a server, at most.
    pub processors: u32,
    /// Slots for DIMMs at a processor; all of them are filled.
    pub slots: u32,
    /// Sizes of DIMMs.
    pub dimms: Vec<Dimm>,
    /// Devices on CXL, at most.
    pub devices: u32,
    /// Capacity of a device, in GiB.
    pub device_gib: f64,
    /// Price of a device with its DIMMs.
    pub device: f64,
}

/// A server.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Server {
    /// Its processors.
    pub processors: u32,
    /// The DIMM in each slot.
    pub dimm: Dimm,
    /// Its devices on CXL.
    pub devices: u32,
    /// Its memory, in GiB.
    pub gib: f64,
    /// Its price: processors and memory.
    pub price: f64,
}

impl Parts {
    /// The cheapest server with at least this memory and at most so many devices on CXL. `None`
    /// where no server has as much.
    pub fn cheapest(&self, gib: f64, devices: u32) -> Option<Server> {
        let servers = self
            .servers()
            .filter(|server| server.gib >= gib && server.devices <= devices);
        servers.min_by(|a, b| a.price.total_cmp(&b.price))
    }

    fn servers(&self) -> impl Iterator<Item = Server> {
        let processors = 1..=self.processors;
        let choices = processors.flat_map(move |processors| {
            let dimms = self.dimms.iter();
            dimms.flat_map(move |dimm| {
                (0..=self.devices).map(move |devices| (processors, *dimm, devices))
            })
        });
        choices.map(|(processors, dimm, devices)| {
            let dimms_gib = f64::from(processors * self.slots) * dimm.gib;
            Server {
                processors,
                dimm,
                devices,
                gib: dimms_gib + f64::from(devices) * self.device_gib,
                price: f64::from(processors) * self.processor
                    + dimms_gib * dimm.price_per_gib
                    + f64::from(devices) * self.device,
            }
        })
    }
}
#[cfg(test)]
mod tests {
    use super::*;

    /// Weisgut et al., §7, as far as the text has figures: a DIMM of 128 GiB costs 1.4 to 1.7 times
    /// as much a GiB as smaller ones, one of 256 GiB more than twice as much. Within that, the
    /// prices of those and of a device are such that the published savings come out.
    fn published() -> Parts {
        let dimm = |(gib, ratio): (f64, f64)| Dimm {
            gib,
            price_per_gib: 4.5 * ratio,
        };
        let sizes = [
            (16.0, 1.0),
            (32.0, 1.0),
            (64.0, 1.0),
            (128.0, 1.55),
            (256.0, 2.7),
        ];
        Parts {
            processor: 4000.0,
            processors: 2,
            slots: 16,
            dimms: sizes.map(dimm).to_vec(),
            devices: 4,
            device_gib: 1024.0,
            device: 5380.0,
        }
    }

    fn saved(tib: f64, devices: u32) -> f64 {
        let price = |devices| published().cheapest(tib * 1024.0, devices).unwrap().price;
        1.0 - price(devices) / price(0)
    }

    #[test]
    fn devices_save_where_the_study_says() {
        // Up to 1 TiB, small DIMMs are enough.
        assert_eq!(saved(0.75, 4), 0.0);
        assert_eq!(saved(1.0, 4), 0.0);
        // From 3 to 4 TiB, one device is of no use: 3 TiB is what it gives with small DIMMs.
        assert_eq!(saved(3.5, 1), 0.0);
        // "up to 61 %" with one device, from 4 to 5 TiB; none above.
        assert!((saved(4.5, 1) - 0.61).abs() < 0.01, "{}", saved(4.5, 1));
        assert_eq!(saved(6.0, 1), 0.0);
        // "46 % to 64 %" with four.
        assert!((saved(8.0, 4) - 0.46).abs() < 0.01, "{}", saved(8.0, 4));
        assert!((saved(6.0, 4) - 0.64).abs() < 0.01, "{}", saved(6.0, 4));
    }

    #[test]
    fn more_than_all_parts_give_is_refused() {
        assert_eq!(published().cheapest(12.0 * 1024.0 + 1.0, 4), None);
        assert_eq!(published().cheapest(12.0 * 1024.0, 4).unwrap().devices, 4);
    }
}
