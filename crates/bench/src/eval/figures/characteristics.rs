//! §6.3, requests and records: skew, sizes of keys and values, URLs.

use super::{Claim, FEW, Figure, Quantity, Run, Scale, View, claim, figure, run};
use crate::run::{RequestSetting, Setting};

pub fn figures(scale: &Scale) -> Vec<Figure> {
    vec![skew(scale), sizes(scale), urls(scale)]
}

fn skew(scale: &Scale) -> Figure {
    let all = ["0", "0.5", "0.75", "0.9", "0.99", "1.25"];
    let thetas = scale.pick(&all, &["0", "1.25"]);
    let workloads = scale.pick(&["ycsb-a", "ycsb-c"], &["ycsb-c"]);
    let runs = workloads.iter().flat_map(|workload| {
        thetas.iter().map(move |theta| {
            let setting = scale.over("masstree", workload, &format!("zipfian:{theta}"), &FEW);
            run(workload, *theta, setting)
        })
    });
    let published = [
        ("0", (1.374, 1.487)),
        ("0.5", (1.541, 1.593)),
        ("0.75", (1.560, 1.670)),
        ("0.9", (1.594, 1.794)),
        ("1.25", (1.595, 1.752)),
    ];
    let known = published.iter().filter(|(theta, _)| thetas.contains(theta));
    let claims = known.map(|(theta, published)| Claim {
        category: theta,
        ..claim(
            "SIDLE over the baseline at a coefficient of",
            "sidle",
            Quantity::OVER_BASELINE,
            *published,
            super::why::WORKERS,
        )
    });
    figure(
        "17a",
        "Zipfian coefficients",
        "SIDLE, Figure 17(a)",
        "Panels are workloads. The paper does not give its index or mixes; Masstree here.",
        &[View::Bars(Quantity::OVER_BASELINE)],
        runs.collect(),
        claims.collect(),
    )
}

/// The larger the records, the fewer a map has.
const MOST_BYTES: usize = 400 << 20;

fn sizes(scale: &Scale) -> Figure {
    let of = |panel: &str, category: usize, key_bytes: usize, value_bytes: usize| -> Run {
        let setting = scale.setting("masstree", "ycsb-c", &FEW);
        let records = setting
            .records
            .min((MOST_BYTES / (key_bytes + value_bytes + 40)) as u64);
        let setting = Setting {
            records,
            key_bytes,
            value_bytes,
            ..setting
        };
        run(panel, format!("{category} B"), setting)
    };
    let keys = scale.pick(&[8, 16, 32, 64, 128], &[8, 64]).iter();
    let values = scale.pick(&[8, 64, 256, 1024, 2048], &[256]).iter();
    let keys = keys.map(|bytes| of("bytes of a key", *bytes, *bytes, 8));
    let values = values.map(|bytes| of("bytes of a value", *bytes, 8, *bytes));
    figure(
        "17b",
        "Sizes of keys and values",
        "SIDLE, Figure 17(b)",
        "YCSB-C; at most 400 MiB of large records. Values above 8 bytes are stored in blocks outside the leaves.",
        &[View::Bars(Quantity::OVER_BASELINE)],
        keys.chain(values).collect(),
        vec![
            Claim {
                panel: "bytes of a key",
                ..claim(
                    "SIDLE over the baseline, up to",
                    "sidle",
                    Quantity::OVER_BASELINE,
                    (1.001, 1.748),
                    super::why::WORKERS,
                )
            },
            Claim {
                panel: "bytes of a value",
                ..claim(
                    "SIDLE over the baseline",
                    "sidle",
                    Quantity::OVER_BASELINE,
                    (1.250, 1.385),
                    super::why::WORKERS,
                )
            },
        ],
    )
}

fn urls(scale: &Scale) -> Figure {
    let workloads = scale
        .pick(&["ycsb-a", "ycsb-b", "ycsb-c"], &["ycsb-c"])
        .iter();
    let of = |path: &std::path::PathBuf| {
        let requests = |name: &str| RequestSetting::Workloads {
            names: vec![name.into()],
            distribution: None,
            keys: Some(path.clone()),
        };
        let setting = |name: &&str| Setting {
            requests: requests(name),
            ..scale.setting("art", name, &FEW)
        };
        workloads
            .map(|name| run("", super::overall::name(name), setting(name)))
            .collect()
    };
    let runs: Vec<Run> = scale.urls.as_ref().map(of).unwrap_or_default();
    Figure {
        missing: runs
            .is_empty()
            .then_some("it needs a file of URLs, one a line: --urls FILE"),
        claims: match runs.is_empty() {
            true => Vec::new(),
            false => vec![claim(
                "S-ART over the baseline",
                "sidle",
                Quantity::OVER_BASELINE,
                (1.278, 1.853),
                super::why::WORKERS,
            )],
        },
        ..figure(
            "17c",
            "URLs for keys",
            "SIDLE, Figure 17(c)",
            "400 M URLs of MemeTracker in the paper, the lines of a file here (with numbers appended once all are used).",
            &[View::Bars(Quantity::OVER_BASELINE)],
            runs,
            Vec::new(),
        )
    }
}
