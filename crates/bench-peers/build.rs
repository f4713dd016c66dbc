//! Builds the C++ half of the adapter for Masstree's own sources, with the feature `masstree-cpp`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "masstree-cpp")]
    if let Err(line) = masstree() {
        println!("cargo::error={line}");
    }
}

#[cfg(feature = "masstree-cpp")]
fn masstree() -> Result<(), String> {
    const ADAPTER: &str = "src/peers/masstree.cc";
    const PARTS: [&str; 6] = [
        "compiler.cc",
        "kvthread.cc",
        "memdebug.cc",
        "str.cc",
        "straccum.cc",
        "string.cc",
    ];
    println!("cargo::rerun-if-changed={ADAPTER}");
    println!("cargo::rerun-if-env-changed=MASSTREE_SOURCES");
    let folder = std::env::var("MASSTREE_SOURCES")
        .map_err(|_| "feature masstree-cpp needs MASSTREE_SOURCES=DIR, a clone of masstree-beta")?;
    let folder = std::path::PathBuf::from(folder);
    if !folder.join("config.h").exists() {
        return Err(format!(
            "{} has no config.h: run ./bootstrap.sh and ./configure --disable-assertions \
             --disable-superpage --with-malloc=malloc there",
            folder.display()
        ));
    }
    let parts = PARTS.map(|part| folder.join(part));
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(3)
        .flag("-include")
        .flag(folder.join("config.h").display().to_string())
        .include(&folder)
        .warnings(false)
        .file(ADAPTER)
        .files(parts.into_iter().filter(|part| part.exists()))
        .try_compile("masstree")
        .map_err(|error| error.to_string())
}
