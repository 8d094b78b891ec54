//! Who may use the service.

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::http::StatusCode;
use actix_web::http::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN, WWW_AUTHENTICATE};
use actix_web::middleware::Next;
use actix_web::{Error, web};
use sha2::{Digest, Sha256};

use super::api::refusal;

/// Names of this machine that only a page or program of this machine has reason to use.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Lets requests through.
pub(super) struct Guard {
    /// Hash of the token.
    token: Option<[u8; 32]>,
}

impl Guard {
    pub(super) fn new(token: Option<String>) -> Self {
        Self {
            token: token.map(|token| hash(token.as_bytes())),
        }
    }

    /// Why a request is not let through.
    fn objection(&self, request: &ServiceRequest) -> Option<&'static str> {
        let header = |name| {
            request
                .headers()
                .get(name)
                .and_then(|value: &HeaderValue| value.to_str().ok())
        };
        match self.token {
            Some(token) => {
                let given = header(AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
                // Hashes are compared, so how long that takes says nothing of the token.
                let is_it = given.is_some_and(|given| hash(given.trim().as_bytes()) == token);
                (!is_it).then_some(
                    "this needs `Authorization: Bearer TOKEN` with the token of the service",
                )
            }
            // A page of elsewhere may lead a browser here, but not make it say so.
            None => {
                let is_of_here = header(HOST).is_some_and(is_loopback)
                    && header(ORIGIN).is_none_or(|origin| {
                        origin
                            .split_once("://")
                            .is_some_and(|(_, host)| is_loopback(host))
                    });
                (!is_of_here).then_some("without a token only pages and programs of this machine may use the service, by the name localhost")
            }
        }
    }
}

fn hash(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    LOOPBACK.contains(&name)
}

/// Lets a request through, or answers it.
pub(super) async fn guard(
    guard: web::Data<Guard>,
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let Some(objection) = guard.objection(&request) else {
        return Ok(next.call(request).await?.map_into_left_body());
    };
    let status = match guard.token {
        Some(_) => StatusCode::UNAUTHORIZED,
        None => StatusCode::FORBIDDEN,
    };
    let mut response = refusal(status, objection);
    if guard.token.is_some() {
        let asked = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, asked);
    }
    Ok(request.into_response(response).map_into_right_body())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are() {
        for (host, is_one) in [
            ("localhost:8080", true),
            ("127.0.0.1", true),
            ("[::1]:80", true),
            ("[::1]", true),
            ("localhost.example.org", false),
            ("example.org:127", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(host), is_one, "{host}");
        }
    }
}
