//! Compiles the shim over libfabric's headers, if the feature `libfabric` is on.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "libfabric")]
    libfabric();
}

#[cfg(feature = "libfabric")]
fn libfabric() {
    const SHIM: &str = "src/fabric/libfabric/shim.c";
    println!("cargo::rerun-if-changed={SHIM}");
    let mut build = cc::Build::new();
    build.file(SHIM).warnings(true);
    if build.clone().cargo_warnings(false).try_expand().is_err() {
        println!(
            "cargo::error=the feature `libfabric` needs a C compiler and libfabric's headers \
             (rdma/fabric.h): install Debian's libfabric-dev, or leave the feature out"
        );
        std::process::exit(1);
    }
    build.compile("timberline_libfabric");
    // `dlopen` has a library of its own in a C library before glibc 2.34.
    println!("cargo::rustc-link-lib=dl");
}
