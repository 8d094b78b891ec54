//! A plain web server over a directory: it serves files and ranges of them, and lists
//! nothing.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

/// A server on a port of its own, for as long as the process lives.
pub(crate) struct WebServer {
    /// Its address, with a slash at the end.
    pub(crate) url: String,
    /// The requests it got, as method and path.
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
}

impl WebServer {
    /// Serves the files below `root`.
    pub(crate) fn over(root: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (root, log) = (root.to_owned(), requests.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (root, log) = (root.clone(), log.clone());
                thread::spawn(move || serve(stream, &root, &log));
            }
        });
        Self { url, requests }
    }
}

/// Answers the requests of one connection until it is closed.
fn serve(stream: TcpStream, root: &Path, log: &Mutex<Vec<String>>) {
    let mut writer = stream.try_clone().unwrap();
    let mut lines = BufReader::new(stream).lines();
    while let Some(Ok(request)) = lines.next() {
        let mut range = None;
        for header in lines.by_ref().map_while(Result::ok) {
            if header.is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("range")
            {
                range = value.trim().strip_prefix("bytes=").map(str::to_owned);
            }
        }
        let mut words = request.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        log.lock().unwrap().push(format!("{method} {path}"));
        let file: PathBuf = root.join(path.trim_start_matches('/'));
        let answer = match (method, fs::read(&file)) {
            ("GET" | "HEAD", Ok(body)) => found(&body, range.as_deref(), method == "HEAD"),
            ("GET" | "HEAD", Err(_)) => head("404 Not Found", 0, ""),
            _ => head("405 Method Not Allowed", 0, ""),
        };
        if writer.write_all(&answer).is_err() {
            return;
        }
    }
}

fn found(body: &[u8], range: Option<&str>, head_only: bool) -> Vec<u8> {
    let asked = range.map(|range| bytes_of(range, body.len()));
    let part = asked.clone().unwrap_or(0..body.len());
    let (status, extra) = match &asked {
        Some(part) => {
            let last = part.end - 1;
            let extra = format!(
                "Content-Range: bytes {}-{last}/{}\r\n",
                part.start,
                body.len()
            );
            ("206 Partial Content", extra)
        }
        None => ("200 OK", String::new()),
    };
    let mut answer = head(status, part.len(), &extra);
    if !head_only {
        answer.extend_from_slice(&body[part]);
    }
    answer
}

fn bytes_of(range: &str, len: usize) -> Range<usize> {
    match range.split_once('-').unwrap() {
        ("", last) => len.saturating_sub(last.parse().unwrap())..len,
        (first, "") => first.parse().unwrap()..len,
        (first, last) => {
            let last: usize = last.parse().unwrap();
            first.parse().unwrap()..(last + 1).min(len)
        }
    }
}

fn head(status: &str, length: usize, extra: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{extra}\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"1\"\r\n\r\n"
    )
    .into_bytes()
}
