//! The attribute that makes a component out of an `impl Provisioner`.

use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::quote;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, ExprArray, Ident, ImplItem, ItemImpl, LitStr, Token, parse_macro_input, parse_quote};

/// Exports a plugin: stands on its `impl Provisioner for …`, once per crate.
///
/// - `name = "vendor.example/name"`, required;
/// - `summary = "One sentence."`, required;
/// - `needs = ["deployments.apps: get, patch", …]`: what it may ask for, for the operator to read; each entry is resources
///   of one API group (after the first dot; none for the core group), a colon, verbs;
/// - the version is the crate's.
///
/// `type Outputs` and `type Memory` may be left out of the impl: then they are any JSON document.
#[proc_macro_attribute]
pub fn provisioner(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = parse_macro_input!(arguments as Arguments);
    let item = parse_macro_input!(item as ItemImpl);
    expand(arguments, item)
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}

struct Arguments {
    name: LitStr,
    summary: LitStr,
    needs: Vec<Need>,
}

struct Need {
    group: String,
    resources: Vec<String>,
    verbs: Vec<String>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let (mut name, mut summary, mut needs) = (None, None, Vec::new());
        while !input.is_empty() {
            let key: Ident = input.parse()?;
            input.parse::<Token![=]>()?;
            match key.to_string().as_str() {
                "name" => name = Some(plugin_name(input.parse()?)?),
                "summary" => summary = Some(input.parse()?),
                "needs" => {
                    for entry in input.parse::<ExprArray>()?.elems {
                        needs.extend(need(&syn::parse2(quote!(#entry))?)?);
                    }
                }
                _ => return Err(Error::new(key.span(), "known here: name, summary, needs")),
            }
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let missing = |what| input.error(format!("`{what} = \"…\"` is missing"));
        Ok(Self {
            name: name.ok_or_else(|| missing("name"))?,
            summary: summary.ok_or_else(|| missing("summary"))?,
            needs,
        })
    }
}

fn plugin_name(name: LitStr) -> syn::Result<LitStr> {
    let text = name.value();
    let is_part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
    };
    match text.split_once('/') {
        Some((vendor, rest)) if is_part(vendor) && vendor.contains('.') && is_part(rest) => Ok(name),
        _ => Err(Error::new(
            name.span(),
            "a plugin's name is `vendor.example/name`, in lower case",
        )),
    }
}

/// One entry may name resources of several groups: each group is a rule of its own.
fn need(entry: &LitStr) -> syn::Result<Vec<Need>> {
    let text = entry.value();
    let words = |list: &str| -> Vec<String> {
        list.split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let (resources, verbs) = text
        .split_once(':')
        .map(|(resources, verbs)| (words(resources), words(verbs)))
        .filter(|(resources, verbs)| !resources.is_empty() && !verbs.is_empty())
        .ok_or_else(|| {
            Error::new(
                entry.span(),
                "write it as `deployments.apps, replicasets.apps: get, patch`",
            )
        })?;
    let mut rules: Vec<Need> = Vec::new();
    for resource in resources {
        let (resource, group) = match resource.split_once('.') {
            Some((resource, group)) => (resource.to_owned(), group.to_owned()),
            None => (resource, String::new()),
        };
        match rules.iter_mut().find(|rule| rule.group == group) {
            Some(rule) => rule.resources.push(resource),
            None => rules.push(Need {
                group,
                resources: vec![resource],
                verbs: verbs.clone(),
            }),
        }
    }
    Ok(rules)
}

fn expand(arguments: Arguments, mut item: ItemImpl) -> syn::Result<Tokens> {
    if item.trait_.is_none() || !item.generics.params.is_empty() {
        return Err(Error::new_spanned(
            &item.self_ty,
            "this attribute stands on `impl Provisioner for TYPE`",
        ));
    }
    for name in ["Outputs", "Memory"] {
        let given = item
            .items
            .iter()
            .any(|entry| matches!(entry, ImplItem::Type(entry) if entry.ident == name));
        if !given {
            let name = Ident::new(name, proc_macro2::Span::call_site());
            item.items.push(parse_quote!(type #name = ::chandlery_plugin::Json;));
        }
    }
    let Arguments { name, summary, needs } = arguments;
    let plugin = &item.self_ty;
    let needs = needs.iter().map(
        |Need {
             group,
             resources,
             verbs,
         }| quote!((#group, &[#(#resources),*], &[#(#verbs),*])),
    );
    let needs: Punctuated<Tokens, Token![,]> = needs.collect();
    Ok(quote! {
        #item

        impl ::chandlery_plugin::Described for #plugin {
            const NAME: &'static str = #name;
            const VERSION: &'static str = ::core::env!("CARGO_PKG_VERSION");
            const SUMMARY: &'static str = #summary;
            const NEEDS: &'static [(&'static str, &'static [&'static str], &'static [&'static str])] = &[#needs];
        }

        const _: () = ::chandlery_plugin::exports::<#plugin>();

        // The exported symbols mean something in a component only.
        #[cfg(target_family = "wasm")]
        const _: () = {
            type ExportedPlugin = ::chandlery_plugin::Exported<#plugin>;
            ::chandlery_plugin::bindings::export!(ExportedPlugin with_types_in ::chandlery_plugin::bindings);
        };
    })
}
