//! Generates the `impl Key` of a type.

use proc_macro2::{Literal, TokenStream};
use quote::{format_ident, quote};
use syn::{Data, DataEnum, DeriveInput, Error, Fields, Ident, Result, Type, parse_quote};

/// The implementation, or an error of one line that names the type.
pub fn of(input: &DeriveInput) -> Result<TokenStream> {
    let name = &input.ident;
    let refuse = |why: &str| Err(Error::new_spanned(name, format!("`{name}` {why}")));
    if let Some(lifetime) = input.generics.lifetimes().next() {
        let lifetime = &lifetime.lifetime;
        return refuse(&format!("borrows for `{lifetime}`; a key owns its fields"));
    }
    let (parts, checks) = match &input.data {
        Data::Struct(of) => (of_struct(&of.fields), None),
        Data::Enum(of) if of.variants.is_empty() => return refuse("has no variant to be a key"),
        Data::Enum(of) if of.variants.len() > 1 << 16 => {
            return refuse("has more than 65,536 variants");
        }
        Data::Enum(of) => (of_enum(of), ascending(name, of)?),
        Data::Union(_) => return refuse("is a union; keys are structs and enums"),
    };
    let Parts {
        types,
        len,
        write,
        read,
    } = parts;

    let mut generics = input.generics.clone();
    let bounds = &mut generics.make_where_clause().predicates;
    for field in types {
        bounds.push(parse_quote!(#field: ::timberline::Key<Owned = #field>));
    }
    let (parameters, arguments, bounds) = generics.split_for_impl();
    Ok(quote! {
        #checks

        #[automatically_derived]
        // If the type is not generic, its bounds are trivial: they make the compiler report a field
        // that is no key once, at that field.
        #[allow(trivial_bounds)]
        impl #parameters ::timberline::Key for #name #arguments #bounds {
            const LEN: ::core::option::Option<usize> = #len;
            type Borrowed = Self;
            type Owned = Self;
            type Bytes<'key> = ::timberline::Composite;

            #[inline]
            fn to_bytes(&self) -> ::timberline::Composite {
                match self { #write }
            }

            #[inline]
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut parts = ::timberline::Parts::of(bytes);
                #read
            }
        }
    })
}

/// The parts of the implementation.
struct Parts<'i> {
    /// The types of all fields.
    types: Vec<&'i Type>,
    len: TokenStream,
    /// Match arms that encode a value as a `Composite`.
    write: TokenStream,
    /// An expression that decodes a value from `parts`.
    read: TokenStream,
}

fn of_struct(fields: &Fields) -> Parts<'_> {
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let (write, read) = both(&quote!(Self), fields, &TokenStream::new());
    let len = quote! {
        ::timberline::Composite::fixed_len(&[#(<#types as ::timberline::Key>::LEN),*])
    };
    Parts {
        types,
        len,
        write,
        read,
    }
}

fn of_enum(of: &DataEnum) -> Parts<'_> {
    let of_byte = of.variants.len() <= 1 << 8;
    let tag_type = if of_byte { quote!(u8) } else { quote!(u16) };
    let (mut write, mut read) = (TokenStream::new(), TokenStream::new());
    for (position, variant) in of.variants.iter().enumerate() {
        let name = &variant.ident;
        let tag = match of_byte {
            true => Literal::u8_suffixed(position as u8),
            false => Literal::u16_suffixed(position as u16),
        };
        let with_tag = quote!(.with::<#tag_type>(&#tag));
        let (arm, made) = both(&quote!(Self::#name), &variant.fields, &with_tag);
        write.extend(arm);
        read.extend(quote!(#tag => #made,));
    }
    let fields = || of.variants.iter().flat_map(|variant| &variant.fields);
    let len = match fields().next() {
        None => quote!(<#tag_type as ::timberline::Key>::LEN),
        Some(_) => quote!(::core::option::Option::None),
    };
    let read = quote! {
        match parts.take::<#tag_type>() {
            #read
            tag => ::core::panic!("no variant of a key has the tag {tag}"),
        }
    };
    Parts {
        types: fields().map(|field| &field.ty).collect(),
        len,
        write,
        read,
    }
}

/// The match arm that encodes a struct or variant after its tag, and the expression that decodes
/// it.
fn both(path: &TokenStream, fields: &Fields, tag: &TokenStream) -> (TokenStream, TokenStream) {
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let members: Vec<_> = fields.members().collect();
    let names: Vec<_> = (0..types.len())
        .map(|n| format_ident!("field_{n}"))
        .collect();
    let write = quote! {
        #path { #(#members: #names),* } => {
            ::timberline::Composite::new()#tag #(.with::<#types>(#names))*
        }
    };
    let read = quote!(#path { #(#members: parts.take::<#types>()),* });
    (write, read)
}

/// `#[derive(Ord)]` orders an enum with explicit discriminants by these. That is the order of
/// declaration only if they ascend, which the returned assertions check.
fn ascending(name: &Ident, of: &DataEnum) -> Result<Option<TokenStream>> {
    let Some(valued) = of.variants.iter().find(|it| it.discriminant.is_some()) else {
        return Ok(None);
    };
    if let Some(other) = of
        .variants
        .iter()
        .find(|it| !matches!(it.fields, Fields::Unit))
    {
        let (valued, other) = (&valued.ident, &other.ident);
        let line = format!("`{name}::{valued}` has a value and `{name}::{other}` has fields");
        return Err(Error::new_spanned(valued, line));
    }
    let names: Vec<_> = of.variants.iter().map(|variant| &variant.ident).collect();
    let line = format!("the values of `{name}`'s variants must ascend, as its keys do");
    let (lesser, greater) = (&names[..names.len() - 1], &names[1..]);
    Ok(Some(quote! {
        const _: () = {
            #(::core::assert!((#name::#lesser as i128) < (#name::#greater as i128), #line);)*
        };
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        of(&syn::parse_str(text).unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn what_can_be_no_key_is_refused_in_a_line_that_names_it() {
        let borrows = "`Visit` borrows for `'a`; a key owns its fields";
        assert_eq!(refused("struct Visit<'a> { host: &'a str }"), borrows);
        assert_eq!(
            refused("enum Never {}"),
            "`Never` has no variant to be a key"
        );
        let union = "`Bits` is a union; keys are structs and enums";
        assert_eq!(refused("union Bits { a: u8, b: i8 }"), union);
        let both = "`Mixed::A` has a value and `Mixed::B` has fields";
        assert_eq!(refused("enum Mixed { A = 3, B(u8) }"), both);
    }

    #[test]
    fn the_tag_of_an_enum_has_a_byte_up_to_256_variants() {
        for (variants, tag) in [(256, "u8"), (257, "u16")] {
            let list: Vec<_> = (0..variants).map(|n| format!("V{n}")).collect();
            let text = format!("enum Many {{ {} }}", list.join(", "));
            let made = of(&syn::parse_str(&text).unwrap()).unwrap().to_string();
            assert!(made.contains(&format!("take :: < {tag} >")), "{variants}");
        }
    }
}
