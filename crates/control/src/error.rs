//! The errors of responses.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use xoff_telemetry::failure::{Exit, Failure};

/// The kind of an error in a response, for programs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is not valid HTTP or JSON, or a parameter is missing, unknown or wrong (400).
    BadRequest,
    /// The request needs the bearer token of the server (401).
    Unauthorized,
    /// The address of the client permits no changes, or `Host` or `Origin` names another machine (403).
    Forbidden,
    /// The resource does not exist: an unknown path, switch or port (404).
    NotFound,
    /// The resource does not have this method (405).
    MethodNotAllowed,
    /// The request did not arrive or was not answered in time (408).
    Timeout,
    /// The server has several switches, and the path names none (409).
    SwitchNotNamed,
    /// The configuration is not the one that `If-Match` names (412). Nothing was changed.
    PreconditionFailed,
    /// The body of the request is too long (413).
    TooLarge,
    /// The body has another media type than the resource accepts (415).
    UnsupportedMediaType,
    /// The configuration of the request is invalid (422). Nothing was changed.
    InvalidConfiguration,
    /// The client sends requests faster than the server answers them (429). `Retry-After` states the seconds
    /// to wait.
    TooManyRequests,
    /// An error of the server (500).
    Internal,
    /// The switch does not support the request or cannot execute it now (503). For example, the switch
    /// is stopping.
    Unavailable,
}

impl ErrorCode {
    /// The codes with their status. Several statuses of HTTP have the same code.
    const STATUSES: &[(ErrorCode, StatusCode)] = &[
        (ErrorCode::BadRequest, StatusCode::BAD_REQUEST),
        (ErrorCode::Unauthorized, StatusCode::UNAUTHORIZED),
        (ErrorCode::Forbidden, StatusCode::FORBIDDEN),
        (ErrorCode::NotFound, StatusCode::NOT_FOUND),
        (ErrorCode::MethodNotAllowed, StatusCode::METHOD_NOT_ALLOWED),
        (ErrorCode::Timeout, StatusCode::REQUEST_TIMEOUT),
        (ErrorCode::SwitchNotNamed, StatusCode::CONFLICT),
        (ErrorCode::PreconditionFailed, StatusCode::PRECONDITION_FAILED),
        (ErrorCode::TooLarge, StatusCode::PAYLOAD_TOO_LARGE),
        (
            ErrorCode::UnsupportedMediaType,
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ),
        (ErrorCode::InvalidConfiguration, StatusCode::UNPROCESSABLE_ENTITY),
        (ErrorCode::TooManyRequests, StatusCode::TOO_MANY_REQUESTS),
        (ErrorCode::Internal, StatusCode::INTERNAL_SERVER_ERROR),
        (ErrorCode::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
    ];

    /// Returns the status of responses with this code.
    pub fn status(self) -> StatusCode {
        let entry = ErrorCode::STATUSES.iter().find(|(code, _)| *code == self);
        entry.map_or(StatusCode::INTERNAL_SERVER_ERROR, |(_, status)| *status)
    }

    /// Returns the code of a status that a library has chosen.
    pub(crate) fn of_status(status: StatusCode) -> ErrorCode {
        let entry = ErrorCode::STATUSES.iter().find(|(_, known)| *known == status);
        match entry {
            Some((code, _)) => *code,
            None if status.is_client_error() => ErrorCode::BadRequest,
            None => ErrorCode::Internal,
        }
    }
}

/// The body of a response to a refused request.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema, PartialEq, Eq)]
pub struct ErrorReply {
    /// The kind of the error, for programs.
    pub code: ErrorCode,
    /// The error as a text for the user.
    pub what: String,
    /// The subject of the error, such as a field. The field is omitted if the error has no subject.
    #[serde(rename = "where", default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// The reason of the error. The field is omitted if `what` explains everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// An action that solves the problem. The field is omitted if no action is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
    /// All errors of an invalid configuration, one line each. `why` contains only the first of these errors.
    /// The field is omitted if the request failed for a different reason.
    #[serde(default, skip_serializing_if = "<[String]>::is_empty")]
    #[schema(value_type = Vec<String>)]
    pub errors: Box<[String]>,
}

impl ErrorReply {
    pub(crate) fn new(code: ErrorCode, what: impl Into<String>) -> ErrorReply {
        ErrorReply {
            code,
            what: what.into(),
            location: None,
            why: None,
            fix: None,
            errors: Box::default(),
        }
    }

    pub(crate) fn at(mut self, location: impl Into<String>) -> ErrorReply {
        self.location = Some(location.into());
        self
    }

    pub(crate) fn because(mut self, why: impl std::fmt::Display) -> ErrorReply {
        self.why = Some(why.to_string());
        self
    }

    pub(crate) fn fix(mut self, fix: impl Into<String>) -> ErrorReply {
        self.fix = Some(fix.into());
        self
    }
}

impl From<Failure> for ErrorReply {
    fn from(failure: Failure) -> ErrorReply {
        let code = match failure.exit {
            Exit::Configuration => ErrorCode::InvalidConfiguration,
            Exit::Usage => ErrorCode::BadRequest,
            _ => ErrorCode::Unavailable,
        };
        ErrorReply {
            code,
            what: failure.what,
            location: failure.location,
            why: failure.why,
            fix: failure.fix,
            errors: failure.errors,
        }
    }
}

impl From<ErrorReply> for Failure {
    fn from(reply: ErrorReply) -> Failure {
        let exit = match reply.code {
            ErrorCode::InvalidConfiguration => Exit::Configuration,
            ErrorCode::BadRequest
            | ErrorCode::NotFound
            | ErrorCode::SwitchNotNamed
            | ErrorCode::MethodNotAllowed
            | ErrorCode::UnsupportedMediaType
            | ErrorCode::TooLarge => Exit::Usage,
            _ => Exit::Environment,
        };
        Failure {
            exit,
            what: reply.what,
            location: reply.location,
            why: reply.why,
            fix: reply.fix,
            errors: reply.errors,
        }
    }
}

impl IntoResponse for ErrorReply {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let body = serde_json::to_vec(&self).expect("an error has string keys only");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if matches!(self.code, ErrorCode::TooManyRequests | ErrorCode::Unavailable) {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.code == ErrorCode::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
