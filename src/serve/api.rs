//! The requests and their answers.

use actix_web::error::JsonPayloadError;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::middleware::from_fn;
use actix_web::{HttpRequest, HttpResponse, web};
use serde_json::json;

use super::auth;
use super::metrics;
use super::order::Order;
use super::runs::{NotTaken, Runs};
use super::sse;

/// The page at `/`.
const PAGE: &str = include_str!("page.html");

/// What the page may do: what is in it, and requests to where it came from.
const PAGE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Seconds after which one that found the queue full may ask again.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("30");

/// Where everything is.
pub(super) fn routes(app: &mut web::ServiceConfig, max_body: usize) {
    let json = web::JsonConfig::default()
        .limit(max_body)
        .error_handler(|error, _| {
            let response = not_json(&error);
            actix_web::error::InternalError::from_response(error, response).into()
        });
    app.app_data(json)
        .route("/", web::get().to(page))
        .route("/healthz", web::get().to(healthy))
        .route("/readyz", web::get().to(ready))
        .service(
            web::resource("/metrics")
                .wrap(from_fn(auth::guard))
                .route(web::get().to(numbers)),
        )
        .service(
            web::scope("/v1/upgrades")
                .wrap(from_fn(auth::guard))
                .route("", web::post().to(start))
                .route("", web::get().to(list))
                .route("/{id}", web::get().to(one))
                .route("/{id}", web::delete().to(stop))
                .route("/{id}/events", web::get().to(events)),
        )
        .default_service(web::to(nothing));
}

/// An answer that says why not.
pub(super) fn refusal(status: StatusCode, error: &str) -> HttpResponse {
    HttpResponse::build(status).json(json!({"error": error}))
}

fn not_json(error: &JsonPayloadError) -> HttpResponse {
    match error {
        JsonPayloadError::Overflow { limit }
        | JsonPayloadError::OverflowKnownLength { limit, .. } => {
            let error = format!(
                "the body is larger than {limit} bytes; `max_body` of the service allows no more"
            );
            refusal(StatusCode::PAYLOAD_TOO_LARGE, &error)
        }
        JsonPayloadError::ContentType => refusal(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body must be sent as `Content-Type: application/json`",
        ),
        other => refusal(
            StatusCode::BAD_REQUEST,
            &format!(
                "the body is not what it must be, {{\"root\": …, \"options\": {{…}}}}: {other}"
            ),
        ),
    }
}

async fn page() -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header((header::CONTENT_SECURITY_POLICY, PAGE_POLICY))
        .insert_header((header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .insert_header((header::REFERRER_POLICY, "no-referrer"))
        .body(PAGE)
}

async fn healthy() -> &'static str {
    "alive\n"
}

async fn ready(runs: web::Data<Runs>) -> HttpResponse {
    match runs.is_draining() {
        true => HttpResponse::ServiceUnavailable().body("stopping\n"),
        false => HttpResponse::Ok().body("ready\n"),
    }
}

async fn numbers(runs: web::Data<Runs>) -> HttpResponse {
    HttpResponse::Ok()
        .content_type("text/plain; version=0.0.4; charset=utf-8")
        .body(metrics::text(&runs))
}

async fn start(runs: web::Data<Runs>, order: web::Json<Order>) -> HttpResponse {
    match runs.take(order.into_inner()) {
        Ok(record) => HttpResponse::Accepted()
            .insert_header((header::LOCATION, format!("/v1/upgrades/{}", record.id)))
            .json(record),
        Err(error) => not_taken(&error),
    }
}

fn not_taken(error: &NotTaken) -> HttpResponse {
    let status = match error {
        NotTaken::Root(_) => StatusCode::FORBIDDEN,
        NotTaken::Options(_) | NotTaken::Open(_) => StatusCode::UNPROCESSABLE_ENTITY,
        NotTaken::Busy { .. } => StatusCode::CONFLICT,
        NotTaken::Full(_) => StatusCode::TOO_MANY_REQUESTS,
        NotTaken::Draining => StatusCode::SERVICE_UNAVAILABLE,
        NotTaken::State(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let mut response = match error {
        NotTaken::Busy { id, .. } => {
            HttpResponse::build(status).json(json!({"error": error.to_string(), "run": id}))
        }
        _ => refusal(status, &error.to_string()),
    };
    if matches!(error, NotTaken::Full(_) | NotTaken::Draining) {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, RETRY_AFTER_S);
    }
    response
}

async fn list(runs: web::Data<Runs>) -> HttpResponse {
    HttpResponse::Ok().json(json!({"upgrades": runs.list()}))
}

async fn one(runs: web::Data<Runs>, id: web::Path<String>) -> HttpResponse {
    match runs.one(&id) {
        Some(record) => HttpResponse::Ok().json(record),
        None => unknown(&id),
    }
}

async fn stop(runs: web::Data<Runs>, id: web::Path<String>) -> HttpResponse {
    match runs.stop(&id, "a request") {
        Some(true) => match runs.one(&id) {
            Some(record) => HttpResponse::Accepted().json(record),
            None => unknown(&id),
        },
        Some(false) => refusal(
            StatusCode::CONFLICT,
            &format!("run `{id}` has ended already"),
        ),
        None => unknown(&id),
    }
}

async fn events(
    runs: web::Data<Runs>,
    id: web::Path<String>,
    request: HttpRequest,
) -> HttpResponse {
    let Some(feed) = runs.feed(&id) else {
        return unknown(&id);
    };
    let last = request.headers().get("Last-Event-ID");
    let next = match last.map(|last| last.to_str().ok().and_then(|last| last.parse::<u64>().ok())) {
        None => 0,
        Some(Some(last)) => last.saturating_add(1),
        Some(None) => {
            return refusal(
                StatusCode::BAD_REQUEST,
                "`Last-Event-ID` is no number of an event",
            );
        }
    };
    sse::follow(runs.get_ref().clone(), feed, next)
}

fn unknown(id: &str) -> HttpResponse {
    refusal(
        StatusCode::NOT_FOUND,
        &format!("there is no run `{id}`; GET /v1/upgrades lists those that are known"),
    )
}

async fn nothing() -> HttpResponse {
    refusal(
        StatusCode::NOT_FOUND,
        "there is nothing here; the requests are under /v1/upgrades, the page is at /",
    )
}
