//! What may be a name, and the sentences that say why not.

/// Why `name` is no DNS subdomain of at most 253 characters.
pub fn subdomain(_name: &str, _prefix: bool) -> Vec<String> {
    Vec::new()
}

/// Why `name` is no qualified name, as keys of labels are.
pub fn qualified_name(_name: &str) -> Vec<String> {
    Vec::new()
}

/// Why `value` is no value of a label.
pub fn label_value(_value: &str) -> Vec<String> {
    Vec::new()
}
