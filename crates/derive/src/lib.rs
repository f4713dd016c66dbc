//! `#[derive(Key)]`, which `timberline` re-exports with its feature `derive`.

mod implementation;

use proc_macro::TokenStream;
use syn::{DeriveInput, Error, parse_macro_input};

/// Implements `Key` for a struct or an enum. The encoding concatenates those of the fields, so keys
/// sort as under `#[derive(Ord)]`: by the first field, then by the second, and so on. The variants
/// of an enum sort in the order of their declaration.
///
/// Each field's type must be a `Key`. If all fields have a fixed length, of up to eight bytes
/// together, a `BTree` keeps the key as a word. The tag of an enum takes one byte, or two with more
/// than 256 variants.
///
/// Reordering fields or variants changes the order of keys.
#[proc_macro_derive(Key)]
pub fn key(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let made = implementation::of(&input);
    made.unwrap_or_else(Error::into_compile_error).into()
}
