//! What the tests of a root share: a store in memory, and a server that answers by a script.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;

use object_store::memory::InMemory;

use super::*;
use crate::error::FaultKind;

mod address;
mod answers;
mod contract;
mod credentials;
mod elsewhere;
mod faults;
mod http;
mod local;
mod renewal;
mod settle;

fn options(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

fn memory() -> Root {
    Root::new(Arc::new(InMemory::new()), "memory://hive").with_retry(RetryPolicy::immediate(3))
}

/// Answers with one canned response after another, the last one over and over.
struct Canned {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Canned {
    fn serve(answers: &[(&str, &str)]) -> Self {
        let mut answers: std::collections::VecDeque<_> = options(answers).into();
        Self::serve_with(move |_| match answers.len() {
            1 => answers[0].clone(),
            _ => answers.pop_front().unwrap(),
        })
    }

    /// Answers each request with what `answer` makes of it: head and body.
    fn serve_with(mut answer: impl FnMut(&str) -> (String, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = requests.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let request = Self::read(&mut stream);
                let (head, body) = answer(&request);
                seen.lock().unwrap().push(request);
                let response = format!(
                    "HTTP/1.1 {head}\r\nContent-Length: {}\r\nETag: \"e\"\r\n\
                     Last-Modified: Tue, 01 Jan 2030 00:00:00 GMT\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                );
                let _ = stream.write_all(response.as_bytes());
            }
        });
        Self { port, requests }
    }

    fn read(stream: &mut TcpStream) -> String {
        let mut request = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            let n = stream.read(&mut buffer).unwrap_or(0);
            request.extend_from_slice(&buffer[..n]);
            let text = String::from_utf8_lossy(&request).to_ascii_lowercase();
            if let Some((headers, rest)) = text.split_once("\r\n\r\n") {
                let length = headers
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: "))
                    .map_or(0, |length| length.parse().unwrap());
                if rest.len() >= length {
                    break;
                }
            }
            if n == 0 {
                break;
            }
        }
        String::from_utf8_lossy(&request).into_owned()
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A root whose requests come here.
    fn open(&self, url: &str, given: &[(&str, &str)]) -> Root {
        let endpoint = self.url();
        let here = [
            ("AWS_ENDPOINT", endpoint.as_str()),
            ("GOOGLE_BASE_URL", &endpoint),
            ("AZURE_STORAGE_ENDPOINT", &endpoint),
            ("AZURE_STORAGE_ACCOUNT", "account"),
            // Whoever runs the tests may have a home with profiles in it.
            ("HOME", "/nowhere"),
        ];
        let given: Vec<_> = here.iter().chain(given).copied().collect();
        Root::open_with(url, options(&given))
            .unwrap()
            .with_retry(RetryPolicy::immediate(3))
    }

    fn s3(&self) -> Root {
        let endpoint = self.url();
        let options = options(&[
            ("AWS_ENDPOINT_URL", &endpoint),
            ("AWS_ACCESS_KEY_ID", "id"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_REGION", "us-east-1"),
            ("TOKEN", "somebody else's"),
        ]);
        Root::open_with("s3://bucket/a 100%/hive/", options)
            .unwrap()
            .with_retry(RetryPolicy::immediate(3))
    }

    fn http(&self) -> Root {
        Root::open(&format!("http://127.0.0.1:{}/data/my%20hive/", self.port))
            .unwrap()
            .with_retry(RetryPolicy::immediate(3))
    }

    fn first_lines(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        let first = |request: &String| request.lines().next().unwrap_or_default().to_owned();
        requests.iter().map(first).collect()
    }
}
