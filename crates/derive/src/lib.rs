//! `#[derive(Key)]`, which `timberline` re-exports with its feature `derive`.

mod implementation;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, parse_macro_input};

/// Makes a struct or an enum a `Key`: its encoding is that of its fields, one after the other, so
/// keys sort as `#[derive(Ord)]` has it, by the first field, then by the second, and so on. The
/// variants of an enum sort in the order in which they are written.
///
/// Each field's type must be a `Key`. If fields with a fixed length have up to eight bytes
/// together, `impl WordKey for T {}` makes the type a key of a `BTree` too; the tag of an enum
/// takes one byte, or two if there are more than 256 variants.
///
/// The order of fields and variants is the order of keys, as in memory: to change it changes how
/// keys sort.
#[proc_macro_derive(Key)]
pub fn key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let made = implementation::of(&input);
    made.unwrap_or_else(Error::into_compile_error).into()
}
