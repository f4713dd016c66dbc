//! Arenas in a process that may have few addresses (`ulimit -v`): a child of the test.
#![cfg(target_os = "linux")]

use std::process::Command;

use timberline_tier::{Arenas, ArenasConfig, ArenasError, Limit, TierId};

const CHILD: &str = "TIMBERLINE_SHORT_OF_ADDRESSES";

#[test]
#[cfg_attr(any(asan, tsan), ignore = "sanitizers need terabytes of addresses")]
fn arenas_without_a_limit_share_what_there_is() {
    if std::env::var_os(CHILD).is_some() {
        return share();
    }
    for kib in [512 << 10, 4 << 20] {
        let output = Command::new("sh")
            .args(["-c", "ulimit -v $0 && exec \"$1\""])
            .arg(kib.to_string())
            .arg(std::env::current_exe().unwrap())
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{kib} KiB: {text}");
    }
}

fn share() {
    let growing = |_| Arenas::new(&ArenasConfig::growing()).unwrap();
    let all: Vec<Arenas> = (0..8).map(growing).collect();
    assert!(all.iter().all(|arenas| arenas.range().len() >= 2 << 20));
    assert!(all[0].range().len() >= 64 << 20);
    // The rest of the program has some, too.
    drop(vec![1u8; 16 << 20]);
    let last = &all[7];
    let full = loop {
        if let Err(full) = last.allocate(TierId::FAST, 100_000) {
            break full;
        }
    };
    let addresses = last.range().len();
    assert_eq!((full.of, full.limit), (Limit::Addresses, addresses));
    assert!(full.to_string().contains("addresses"), "{full}");
    // Arenas with a limit say at once that they cannot have it.
    let error = Arenas::new(&ArenasConfig::one_tier(64 << 30)).err();
    assert!(matches!(error, Some(ArenasError::Reserve(..))), "{error:?}");
}
