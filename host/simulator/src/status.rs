//! Failures as an API server words them: one `Status` object each, with its code, reason, details and causes.

use http::StatusCode;
use serde_json::{Map, Value, json};

/// What went wrong with a request, as a client sees it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    /// The HTTP status.
    pub(crate) code: StatusCode,
    /// The machine-readable reason; empty for errors that have none.
    pub(crate) reason: &'static str,
    /// The sentence.
    pub(crate) message: String,
    /// Which object, and why in parts.
    pub(crate) details: Option<Box<Details>>,
    /// Seconds after which to ask again; also sent as a header.
    pub(crate) retry_after: Option<u32>,
    /// Where an interrupted list can go on.
    pub(crate) continuation: Option<String>,
    /// A page that is no `Status`: plain text, as for paths nobody serves.
    pub(crate) plain: bool,
    /// Indented by two, as the API server's own filters write it, instead of compact.
    pub(crate) pretty: bool,
}

/// The object an error is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Details {
    /// Its name.
    pub(crate) name: String,
    /// The group of its kind.
    pub(crate) group: String,
    /// Its kind, or its resource: the API server is not of one mind.
    pub(crate) kind: String,
    /// Its UID.
    pub(crate) uid: String,
    /// The parts of a failure.
    pub(crate) causes: Vec<Cause>,
}

/// One part of a failure: a field and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// Machine-readable, such as `FieldValueInvalid`.
    pub(crate) reason: String,
    /// The sentence.
    pub(crate) message: String,
    /// The field's path, such as `spec.replicas`.
    pub(crate) field: String,
}

impl Cause {
    /// Puts a cause into words from the kind of error a validation reports.
    pub(crate) fn new(reason: &str, field: &str, message: impl Into<String>) -> Self {
        Self {
            reason: reason.to_owned(),
            message: message.into(),
            field: field.to_owned(),
        }
    }

    /// As it stands in the sentence of the whole failure.
    fn sentence(&self) -> String {
        if self.field.is_empty() {
            self.message.clone()
        } else {
            format!("{}: {}", self.field, self.message)
        }
    }
}

impl Failure {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            retry_after: None,
            continuation: None,
            plain: false,
            pretty: false,
        }
    }

    fn about(mut self, name: &str, group: &str, kind: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            ..Details::default()
        }));
        self
    }

    fn without_object(mut self) -> Self {
        self.details = Some(Box::default());
        self
    }

    /// The request could not be understood.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The server failed in a way that has no reason of its own.
    pub(crate) fn unclassified(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// The server stumbled.
    pub(crate) fn internal(why: &str) -> Self {
        let mut failure = Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {why}"),
        );
        failure.set_causes(vec![Cause::new("", "", why)]);
        failure
    }

    /// There is no such object.
    pub(crate) fn not_found(resource: &str, group: &str, name: &str) -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            format!("{} \"{name}\" not found", qualified(resource, group)),
        )
        .about(name, group, resource)
    }

    /// There is an object of that name.
    pub(crate) fn already_exists(resource: &str, group: &str, name: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "AlreadyExists",
            format!("{} \"{name}\" already exists", qualified(resource, group)),
        )
        .about(name, group, resource)
    }

    /// The object is not as the request supposes.
    pub(crate) fn conflict(resource: &str, group: &str, name: &str, why: &str) -> Self {
        Self::new(
            StatusCode::CONFLICT,
            "Conflict",
            format!(
                "Operation cannot be fulfilled on {} \"{name}\": {why}",
                qualified(resource, group)
            ),
        )
        .about(name, group, resource)
    }

    /// Fields are owned by others.
    pub(crate) fn apply_conflict(message: String, causes: Vec<Cause>) -> Self {
        let mut failure = Self::new(StatusCode::CONFLICT, "Conflict", message).without_object();
        failure.set_causes(causes);
        failure
    }

    /// The object breaks rules.
    pub(crate) fn invalid(kind: &str, group: &str, name: &str, causes: Vec<Cause>) -> Self {
        let sentences: Vec<String> = distinct(causes.iter().map(Cause::sentence));
        let why = match sentences.as_slice() {
            [only] => only.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let mut failure = Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("{} \"{name}\" is invalid: {why}", qualified(kind, group)),
        )
        .about(name, group, kind);
        failure.set_causes(causes);
        failure
    }

    /// A patch that does not fit the object.
    pub(crate) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).without_object()
    }

    /// A patch after which the object could not be read.
    pub(crate) fn unprocessable_patch(why: &str) -> Self {
        let cause = Cause::new("FieldValueInvalid", "patch", format!("Invalid value: {why}"));
        Self::invalid("", "", "", vec![cause])
    }

    /// Policy is against it.
    pub(crate) fn forbidden(resource: &str, group: &str, name: &str, why: &str) -> Self {
        let message = match (resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{} is forbidden: {why}", qualified(resource, group)),
            (false, false) => format!("{} \"{name}\" is forbidden: {why}", qualified(resource, group)),
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(name, group, resource)
    }

    /// Nobody knows who asks.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// Nothing is served at that path of the API.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
        .without_object()
    }

    /// Nothing is served at that path at all.
    pub(crate) fn no_such_page() -> Self {
        Self {
            plain: true,
            ..Self::new(StatusCode::NOT_FOUND, "", "404 page not found\n")
        }
    }

    /// The resource knows no such verb.
    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .without_object()
    }

    /// The body is in a format that nobody reads here.
    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// As [`Self::unsupported_media_type`], for patches.
    pub(crate) fn unsupported_patch() -> Self {
        Self::unsupported_media_type("415: Unsupported Media Type").without_object()
    }

    /// The answer cannot be given in a format that was asked for.
    pub(crate) fn not_acceptable(available: &str) -> Self {
        Self {
            pretty: true,
            ..Self::new(
                StatusCode::NOT_ACCEPTABLE,
                "NotAcceptable",
                format!("406: Not Acceptable\n\nAvailable representations: {available}"),
            )
            .without_object()
        }
    }

    /// The answer cannot be given in a shape that was asked for.
    pub(crate) fn unknown_form(available: &str) -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            "NotAcceptable",
            format!("only the following media types are accepted: {available}"),
        )
    }

    /// The history that was asked for is no longer kept.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The future was asked for.
    pub(crate) fn version_too_large(asked: u64, current: u64) -> Self {
        let mut failure = Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: Too large resource version: {asked}, current: {current}"),
        )
        .without_object();
        failure.set_causes(vec![Cause::new(
            "ResourceVersionTooLarge",
            "",
            "Too large resource version",
        )]);
        failure.retry_after = Some(1);
        failure
    }

    /// Others come first.
    pub(crate) fn too_many_requests() -> Self {
        Self {
            plain: true,
            retry_after: Some(1),
            ..Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "",
                "Too many requests, please try again later.\n",
            )
        }
    }

    /// The server is not ready, or about to go.
    pub(crate) fn unavailable() -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        )
        .without_object()
    }

    /// Whoever would answer is not there.
    pub(crate) fn no_backend() -> Self {
        Self {
            plain: true,
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "", "service unavailable\n")
        }
    }

    /// The server gave up waiting for itself.
    pub(crate) fn timeout() -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            "Timeout: request did not complete within the allotted timeout",
        )
        .without_object()
    }

    /// The body is larger than the server takes.
    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// The patch has more operations than the server takes.
    pub(crate) fn too_many_operations(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// What a real API server does here and this one does not: never a wrong answer in silence.
    pub(crate) fn not_simulated(what: &str) -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "NotImplemented",
            format!("the simulator does not do this: {what}; a real API server is needed"),
        )
    }

    fn set_causes(&mut self, causes: Vec<Cause>) {
        self.details.get_or_insert_default().causes = causes;
    }

    /// The `Status` object.
    pub(crate) fn to_value(&self) -> Value {
        let mut status = Map::new();
        status.insert("kind".into(), "Status".into());
        status.insert("apiVersion".into(), "v1".into());
        let metadata = match &self.continuation {
            Some(token) => json!({"continue": token}),
            None => json!({}),
        };
        status.insert("metadata".into(), metadata);
        status.insert("status".into(), "Failure".into());
        status.insert("message".into(), self.message.clone().into());
        if !self.reason.is_empty() {
            status.insert("reason".into(), self.reason.into());
        }
        if let Some(details) = &self.details {
            status.insert("details".into(), details.to_value(self.retry_after));
        }
        status.insert("code".into(), self.code.as_u16().into());
        Value::Object(status)
    }
}

impl Details {
    fn to_value(&self, retry_after: Option<u32>) -> Value {
        let mut details = Map::new();
        for (key, value) in [
            ("name", &self.name),
            ("group", &self.group),
            ("kind", &self.kind),
            ("uid", &self.uid),
        ] {
            if !value.is_empty() {
                details.insert(key.into(), value.clone().into());
            }
        }
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|cause| {
                let mut entry = Map::new();
                if !cause.reason.is_empty() {
                    entry.insert("reason".into(), cause.reason.clone().into());
                }
                entry.insert("message".into(), cause.message.clone().into());
                if !cause.field.is_empty() {
                    entry.insert("field".into(), cause.field.clone().into());
                }
                Value::Object(entry)
            });
            details.insert("causes".into(), causes.collect());
        }
        if let Some(seconds) = retry_after {
            details.insert("retryAfterSeconds".into(), seconds.into());
        }
        Value::Object(details)
    }
}

/// `deployments.apps`; the core group has no suffix.
pub(crate) fn qualified(resource: &str, group: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

/// The first of each, in order: an error that two rules report is told once.
fn distinct(sentences: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for sentence in sentences {
        if !seen.contains(&sentence) {
            seen.push(sentence);
        }
    }
    seen
}
