//! A request, taken apart: what is asked of what, and with which options.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, Method};

use crate::access::{Attributes, User};
use crate::status::Failure;

/// One request as the API sees it.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) user: User,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Query,
    pub(crate) content_type: String,
    pub(crate) accept: String,
    pub(crate) user_agent: String,
    pub(crate) body: Bytes,
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Path {
    /// An object, a collection, or a subresource.
    Resource(ResourcePath),
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/GROUP`
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`
    GroupVersion { group: String, version: String },
    /// `/openapi/v3` or a document behind it.
    OpenApi(Option<String>),
    /// `/version`
    Version,
    /// `/healthz`, `/livez`, `/readyz`
    Health,
    /// Anything else.
    Other,
}

/// The parts of a path below a group's version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// The options behind the question mark; the first value of each counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(BTreeMap<String, Vec<String>>);

impl Call {
    pub(crate) fn new(user: User, method: Method, uri: &http::Uri, headers: &HeaderMap, body: Bytes) -> Self {
        let header = |name: http::HeaderName| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        Self {
            user,
            method,
            path: uri.path().to_owned(),
            query: Query::parse(uri.query().unwrap_or_default()),
            content_type: header(http::header::CONTENT_TYPE),
            accept: header(http::header::ACCEPT),
            user_agent: header(http::header::USER_AGENT),
            body,
        }
    }

    /// The media type of the body, without its parameters.
    pub(crate) fn media_type(&self) -> &str {
        self.content_type.split(';').next().unwrap_or_default().trim()
    }

    /// Who writes, if the request does not say: the first word of the client's name.
    pub(crate) fn manager(&self) -> String {
        if let Some(manager) = self.query.text("fieldManager").filter(|manager| !manager.is_empty()) {
            return manager.to_owned();
        }
        let word = self.user_agent.split('/').next().unwrap_or_default();
        let word: String = word
            .chars()
            .filter(|character| !character.is_control())
            .take(128)
            .collect();
        if word.is_empty() { "unknown".to_owned() } else { word }
    }

    /// What authorization asks about: a resource's verb and place, or a method and a path.
    pub(crate) fn attributes(&self) -> Attributes {
        match Path::parse(&self.path) {
            Path::Resource(path) => self.attributes_of(&path),
            _ => Attributes {
                verb: self.method.as_str().to_ascii_lowercase(),
                path: self.path.clone(),
                ..Attributes::default()
            },
        }
    }

    /// The same for a path that is taken apart.
    pub(crate) fn attributes_of(&self, path: &ResourcePath) -> Attributes {
        Attributes {
            verb: self.verb(path).to_owned(),
            group: path.group.clone(),
            resource: path.resource.clone(),
            subresource: path.subresource.clone().unwrap_or_default(),
            namespace: path.namespace.clone().unwrap_or_default(),
            name: path.name.clone().unwrap_or_default(),
            path: String::new(),
        }
    }

    /// The verb that authorization and admission speak of.
    pub(crate) fn verb(&self, path: &ResourcePath) -> &'static str {
        let one = path.name.is_some();
        match self.method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE if one => "delete",
            Method::DELETE => "deletecollection",
            Method::GET if self.query.flag("watch") && (!one || path.subresource.is_none()) => "watch",
            Method::GET if one => "get",
            Method::GET => "list",
            _ => "",
        }
    }
}

impl Path {
    pub(crate) fn parse(path: &str) -> Self {
        // A slash is one, however it is written.
        let path = decode(path);
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", version] => Self::GroupVersion {
                group: String::new(),
                version: (*version).to_owned(),
            },
            ["apis", group, version] => Self::GroupVersion {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
            },
            ["api", version, rest @ ..] => Self::Resource(ResourcePath::parse("", version, rest)),
            ["apis", group, version, rest @ ..] => Self::Resource(ResourcePath::parse(group, version, rest)),
            ["openapi", "v3"] => Self::OpenApi(None),
            ["openapi", "v3", rest @ ..] => Self::OpenApi(Some(rest.join("/"))),
            ["version"] => Self::Version,
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            _ => Self::Other,
        }
    }
}

impl ResourcePath {
    fn parse(group: &str, version: &str, rest: &[&str]) -> Self {
        let mut path = Self {
            group: group.to_owned(),
            version: version.to_owned(),
            ..Self::default()
        };
        let own = |part: &&str| Some((*part).to_owned());
        let rest = match rest {
            // The namespaces themselves, and what belongs to one of them.
            ["namespaces"] => &["namespaces"],
            // No namespace is all of them.
            ["namespaces", "", rest @ ..] => rest,
            ["namespaces", name] => {
                path.namespace = own(name);
                rest
            }
            ["namespaces", name, "status" | "finalize"] => {
                path.namespace = own(name);
                rest
            }
            ["namespaces", name, rest @ ..] => {
                path.namespace = own(name);
                rest
            }
            rest => rest,
        };
        path.resource = rest.first().map(|part| (*part).to_owned()).unwrap_or_default();
        path.name = rest.get(1).and_then(own);
        path.subresource = (rest.len() > 2).then(|| rest.get(2..).unwrap_or_default().join("/"));
        path
    }
}

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty() && is_escaped(pair)) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let plain = |text: &str| decode(&text.replace('+', " "));
            values.entry(plain(key)).or_default().push(plain(value));
        }
        Self(values)
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.first().map(String::as_str)
    }

    pub(crate) fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// As Kubernetes reads a flag: there is only one way to say no, and it has two spellings.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.text(key)
            .is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A whole number.
    pub(crate) fn number(&self, key: &str) -> Result<Option<i64>, Failure> {
        match self.text(key) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                let why = if text
                    .trim_start_matches(['-', '+'])
                    .chars()
                    .all(|digit| digit.is_ascii_digit())
                {
                    "value out of range"
                } else {
                    "invalid syntax"
                };
                Failure::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
            }),
        }
    }
}

/// Whether each `%` begins an escape; a pair of a query is dropped otherwise.
fn is_escaped(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|rest| rest.len() >= 2 && rest.bytes().take(2).all(|digit| digit.is_ascii_hexdigit()))
}

/// Resolves `%xx`; what is no escape stays as it is.
pub(crate) fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        let escape = (byte == b'%').then(|| {
            let mut rest = bytes.clone();
            let digits = [rest.next()?, rest.next()?];
            let value = u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?;
            bytes = rest;
            Some(value)
        });
        out.push(escape.flatten().unwrap_or(byte));
    }
    String::from_utf8_lossy(&out).into_owned()
}
