//! What may be a name, and the sentences that say why not: each rule is a function from text to complaints.

use std::sync::LazyLock;

use regex::Regex;

/// A pattern that matches a whole text. The patterns are constants; one that did not compile would match nothing, and
/// every test would show it.
fn whole(pattern: &str) -> Option<Regex> {
    Regex::new(&format!("^(?:{pattern})$")).ok()
}

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| whole($text));
    };
}

const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const WILDCARD: &str = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const C_IDENTIFIER: &str = "[A-Za-z_][A-Za-z0-9_]*";
const PERCENT: &str = "[0-9]+%";
const HEADER: &str = "[-A-Za-z0-9]+";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";
const CONDITION_REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const HTTP_PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";

pattern!(QUALIFIED_FORM, QUALIFIED);
pattern!(LABEL_VALUE_FORM, LABEL_VALUE);
pattern!(DNS_LABEL_FORM, DNS_LABEL);
pattern!(SUBDOMAIN_FORM, SUBDOMAIN);
pattern!(WILDCARD_FORM, WILDCARD);
pattern!(DNS_1035_FORM, DNS_1035);
pattern!(C_IDENTIFIER_FORM, C_IDENTIFIER);
pattern!(PERCENT_FORM, PERCENT);
pattern!(HEADER_FORM, HEADER);
pattern!(CONFIG_KEY_FORM, CONFIG_KEY);
pattern!(CONDITION_REASON_FORM, CONDITION_REASON);
pattern!(HTTP_PATH_FORM, HTTP_PATH);

fn matches(form: &LazyLock<Option<Regex>>, text: &str) -> bool {
    form.as_ref().is_some_and(|form| form.is_match(text))
}

/// The longest DNS label.
pub const LABEL_LENGTH: usize = 63;
/// The longest DNS subdomain.
pub const SUBDOMAIN_LENGTH: usize = 253;

/// The complaint about a text that is too long.
pub fn too_long(length: usize) -> String {
    format!("must be no more than {length} characters")
}

/// The complaint about a number that is out of range.
pub fn out_of_range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// The complaint about a text that does not look as it must.
fn misshapen(sentence: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{sentence} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!(
        "{sentence} (e.g. {}regex used for validation is '{pattern}')",
        examples.join(" or ")
    )
}

/// What stands before a generated suffix may end in a dash.
fn masked(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(rest) if prefix && !rest.is_empty() => {
            // The server replaces the last two bytes by one letter, and so do we.
            let mut kept: String = rest.to_owned();
            kept.pop();
            kept.push('a');
            kept
        }
        _ => name.to_owned(),
    }
}

/// Why `name` is no DNS subdomain of at most 253 characters.
pub fn subdomain(name: &str, prefix: bool) -> Vec<String> {
    dns_subdomain(&masked(name, prefix))
}

/// Why `name` is no DNS label of at most 63 characters.
pub fn label(name: &str, prefix: bool) -> Vec<String> {
    dns_label(&masked(name, prefix))
}

/// Why `name` is no DNS label that begins with a letter.
pub fn label_1035(name: &str, prefix: bool) -> Vec<String> {
    dns_1035_label(&masked(name, prefix))
}

/// Why `name` may not be a segment of a path; a prefix may be `.` or `..`.
pub fn path_segment(name: &str, prefix: bool) -> Vec<String> {
    if !prefix && matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ["/", "%"]
        .iter()
        .filter(|part| name.contains(**part))
        .map(|part| format!("may not contain '{part}'"))
        .collect()
}

/// Why `value` is no DNS subdomain.
pub fn dns_subdomain(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        complaints.push(too_long(SUBDOMAIN_LENGTH));
    }
    if !matches(&SUBDOMAIN_FORM, value) {
        complaints.push(misshapen(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    complaints
}

/// Why `value` is no wildcard such as `*.example.com`.
pub fn wildcard_subdomain(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        complaints.push(too_long(SUBDOMAIN_LENGTH));
    }
    if !matches(&WILDCARD_FORM, value) {
        complaints.push(misshapen(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            WILDCARD,
            &["*.example.com"],
        ));
    }
    complaints
}

/// Why `value` is no DNS label.
pub fn dns_label(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > LABEL_LENGTH {
        complaints.push(too_long(LABEL_LENGTH));
    }
    if !matches(&DNS_LABEL_FORM, value) {
        complaints.push(if matches(&SUBDOMAIN_FORM, value) {
            "must not contain dots".to_owned()
        } else {
            misshapen(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                DNS_LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    complaints
}

/// Why `value` is no DNS label that begins with a letter.
pub fn dns_1035_label(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > LABEL_LENGTH {
        complaints.push(too_long(LABEL_LENGTH));
    }
    if !matches(&DNS_1035_FORM, value) {
        complaints.push(misshapen(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            DNS_1035,
            &["my-name", "abc-123"],
        ));
    }
    complaints
}

/// Why `name` is no qualified name, as keys of labels are.
pub fn qualified_name(name: &str) -> Vec<String> {
    const SENTENCE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    const EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
    let mut complaints = Vec::new();
    let own = match name.split_once('/') {
        None => name,
        Some((prefix, own)) if !own.contains('/') => {
            if prefix.is_empty() {
                complaints.push("prefix part must be non-empty".to_owned());
            } else {
                complaints.extend(dns_subdomain(prefix).iter().map(|why| format!("prefix part {why}")));
            }
            own
        }
        Some(_) => {
            return vec![format!(
                "a qualified name {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                misshapen(SENTENCE, QUALIFIED, EXAMPLES)
            )];
        }
    };
    if own.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    } else if own.len() > LABEL_LENGTH {
        complaints.push(format!("name part {}", too_long(LABEL_LENGTH)));
    }
    if !matches(&QUALIFIED_FORM, own) {
        complaints.push(format!("name part {}", misshapen(SENTENCE, QUALIFIED, EXAMPLES)));
    }
    complaints
}

/// Why `value` is no value of a label.
pub fn label_value(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > LABEL_LENGTH {
        complaints.push(too_long(LABEL_LENGTH));
    }
    if !matches(&LABEL_VALUE_FORM, value) {
        complaints.push(misshapen(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    complaints
}

/// Why `value` is no identifier of the language C.
pub fn c_identifier(value: &str) -> Vec<String> {
    if matches(&C_IDENTIFIER_FORM, value) {
        return Vec::new();
    }
    vec![misshapen(
        "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'",
        C_IDENTIFIER,
        &["my_name", "MY_NAME", "MyName"],
    )]
}

/// Why `value` is no number of a port.
pub fn port_number(value: i64) -> Vec<String> {
    if (1..=65535).contains(&value) {
        Vec::new()
    } else {
        vec![out_of_range(1, 65535)]
    }
}

/// Why `value` is no name of a port.
pub fn port_name(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let is_allowed = |byte: u8| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if value.len() > 15 {
        complaints.push(too_long(15));
    }
    if value.is_empty() || !value.bytes().all(is_allowed) {
        complaints.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|byte| byte.is_ascii_lowercase()) {
        complaints.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        complaints.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        complaints.push("must not begin or end with a hyphen".to_owned());
    }
    complaints
}

/// Why `value` is no percentage such as `25%`.
pub fn percent(value: &str) -> Vec<String> {
    if matches(&PERCENT_FORM, value) {
        return Vec::new();
    }
    vec![misshapen(
        "a valid percent string must be a numeric string followed by an ending '%'",
        PERCENT,
        &["1%", "93%"],
    )]
}

/// Why `value` is no name of an HTTP header.
pub fn header_name(value: &str) -> Vec<String> {
    if matches(&HEADER_FORM, value) {
        return Vec::new();
    }
    vec![misshapen(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        HEADER,
        &["X-Header-Name"],
    )]
}

/// Why `value` is no name of an environment variable.
pub fn environment_name(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.is_empty() {
        complaints.push("environment variable name must be non-empty".to_owned());
    }
    if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        complaints.push(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
                .to_owned(),
        );
    }
    complaints
}

/// Why `value` is no key of a ConfigMap or Secret.
pub fn config_key(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > SUBDOMAIN_LENGTH {
        complaints.push(too_long(SUBDOMAIN_LENGTH));
    }
    if !matches(&CONFIG_KEY_FORM, value) {
        complaints.push(misshapen(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            CONFIG_KEY,
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    if matches!(value, "." | "..") {
        complaints.push(format!("must not be '{value}'"));
    } else if value.starts_with("..") {
        complaints.push("must not start with '..'".to_owned());
    }
    complaints
}

/// Why `value` is no reason of a condition.
pub fn condition_reason(value: &str) -> Vec<String> {
    if matches(&CONDITION_REASON_FORM, value) {
        return Vec::new();
    }
    vec![misshapen(
        "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
        CONDITION_REASON,
        &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
    )]
}

/// Why `value` is no path of a URL; for what follows a domain in names such as `acme.io/foo`.
pub fn http_path(value: &str) -> Vec<String> {
    if matches(&HTTP_PATH_FORM, value) {
        return Vec::new();
    }
    vec![misshapen("Invalid path", HTTP_PATH, &[])]
}
