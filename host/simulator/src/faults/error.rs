//! The answers with which an API server refuses, worded as a real one words them.

use std::fmt;
use std::io;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode};
use serde::{Deserialize, Serialize};

use crate::access::Attributes;
use crate::reply::{Answer, JSON};
use crate::status::{Cause, Failure, qualified};

/// What an API server, or the network before it, answers instead of what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApiError {
    /// 400 `BadRequest`
    BadRequest,
    /// 401 `Unauthorized`
    Unauthorized,
    /// 403 `Forbidden`, by roles
    ForbiddenByRoles,
    /// 403 `Forbidden`, by a quota
    ForbiddenByQuota,
    /// 404 `NotFound`
    NotFound,
    /// 409 `AlreadyExists`
    AlreadyExists,
    /// 409 `Conflict`
    Conflict,
    /// 410 `Expired`
    Expired,
    /// 422 `Invalid`
    Invalid,
    /// 429 `TooManyRequests`, with `Retry-After: 1`
    TooManyRequests,
    /// 500 `InternalError`, by the store
    Internal,
    /// 500 `InternalError`, by a webhook that nobody answers
    Webhook,
    /// 503 `ServiceUnavailable`
    Unavailable,
    /// 504 `Timeout`
    Timeout,
    /// No answer: the connection is reset. After the commit, this is the lost answer.
    ConnectionReset,
}

impl ApiError {
    /// All of them, in the order of their codes.
    pub const ALL: [Self; 15] = [
        Self::BadRequest,
        Self::Unauthorized,
        Self::ForbiddenByRoles,
        Self::ForbiddenByQuota,
        Self::NotFound,
        Self::AlreadyExists,
        Self::Conflict,
        Self::Expired,
        Self::Invalid,
        Self::TooManyRequests,
        Self::Internal,
        Self::Webhook,
        Self::Unavailable,
        Self::Timeout,
        Self::ConnectionReset,
    ];

    /// The answer to a request about `what`; of a lost connection there is none.
    pub(super) fn answer(self, what: &Attributes) -> Result<Response<Bytes>, io::Error> {
        let (resource, group, name) = (what.resource.as_str(), what.group.as_str(), what.name.as_str());
        let object = qualified(resource, group);
        let failure = match self {
            Self::BadRequest => Failure::bad_request("the server rejected our request for an unknown reason"),
            Self::Unauthorized => Failure::unauthorized(),
            Self::ForbiddenByRoles => {
                let place = if what.namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace \"{}\"", what.namespace)
                };
                let why = format!(
                    "User \"somebody\" cannot {} resource \"{resource}\" in API group \"{group}\" {place}",
                    what.verb
                );
                Failure::forbidden(resource, group, name, &why)
            }
            Self::ForbiddenByQuota => {
                let why = format!(
                    "exceeded quota: full, requested: count/{object}=1, used: count/{object}=1, limited: count/{object}=1"
                );
                Failure::forbidden(resource, group, name, &why)
            }
            Self::NotFound => Failure::not_found(resource, group, name),
            Self::AlreadyExists => Failure::already_exists(resource, group, name),
            Self::Conflict => Failure::conflict(
                resource,
                group,
                name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ),
            Self::Expired => Failure::expired("The resourceVersion for the provided list is too old."),
            Self::Invalid => {
                let cause = Cause::new("FieldValueInvalid", "spec", "Invalid value: \"\": field is immutable");
                Failure::invalid(resource, group, name, vec![cause])
            }
            Self::TooManyRequests => Failure::too_many_requests(),
            Self::Internal => Failure::internal("etcdserver: request timed out"),
            Self::Webhook => Failure::internal(
                "failed calling webhook \"judge.example.com\": failed to call webhook: Post \"https://judge.example.svc:443/judge?timeout=10s\": dial tcp 10.0.0.9:443: connect: connection refused",
            ),
            Self::Unavailable => Failure::unavailable(),
            Self::Timeout => Failure::timeout(),
            Self::ConnectionReset => {
                return Err(io::Error::new(
                    io::ErrorKind::ConnectionReset,
                    "connection reset by peer",
                ));
            }
        };
        let answer = Answer::from(failure);
        let mut response = Response::new(answer.body);
        *response.status_mut() = answer.code;
        let headers = response.headers_mut();
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        if let Some(seconds) = answer.retry_after {
            headers.insert(http::header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if answer.code == StatusCode::UNAUTHORIZED {
            headers.insert(http::header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Ok(response)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = serde_json::to_value(self).unwrap_or_default();
        formatter.write_str(name.as_str().unwrap_or_default())
    }
}
