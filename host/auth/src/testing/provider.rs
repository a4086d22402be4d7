//! A fake identity provider. It runs on threads of its own, so that tests without a runtime can use it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// The provider's response to a request.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Answers with this status and body.
    Answers(u16, String),
    /// Answers with the entry for the form's `token`, or that it is not active.
    Introspects(BTreeMap<String, String>),
    /// Reads the request, and answers only when the behaviour changes.
    Hangs,
    /// Closes the connection.
    HangsUp,
    /// Answers without end.
    NeverEnds,
    /// Redirects to this URL.
    Redirects(String),
}

/// A fake identity provider on loopback.
pub struct FakeProvider {
    /// The address that it listens on.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    behaviour: Behaviour,
    requests: Vec<String>,
    is_stopped: bool,
}

impl FakeProvider {
    /// Starts a provider on a free port.
    pub fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Mutex::new(State { behaviour, requests: Vec::new(), is_stopped: false });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let listening = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if listening.state.lock().unwrap().is_stopped {
                    return;
                }
                let shared = Arc::clone(&listening);
                thread::spawn(move || drop(shared.serve(stream)));
            }
        });
        Self { address, shared }
    }

    /// The URL of its endpoint.
    pub fn url(&self) -> String {
        format!("http://{}/endpoint", self.address)
    }

    /// Changes the behaviour; pending requests are answered by it.
    pub fn behave(&self, behaviour: Behaviour) {
        self.shared.state.lock().unwrap().behaviour = behaviour;
        self.shared.changed.notify_all();
    }

    /// The requests so far: heads and bodies.
    pub fn requests(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().requests.clone()
    }
}

impl Drop for FakeProvider {
    fn drop(&mut self) {
        self.shared.state.lock().unwrap().is_stopped = true;
        self.shared.changed.notify_all();
        // A connection wakes the listener's thread, which then ends.
        let _woken = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let request = read(&mut stream)?;
        let mut state = self.state.lock().unwrap();
        state.requests.push(request.clone());
        self.changed.notify_all();
        let hangs = |state: &mut State| matches!(state.behaviour, Behaviour::Hangs) && !state.is_stopped;
        let state = self.changed.wait_while(state, hangs).unwrap();
        let behaviour = if state.is_stopped { Behaviour::HangsUp } else { state.behaviour.clone() };
        drop(state);
        match behaviour {
            Behaviour::Answers(status, body) => answer(&mut stream, status, "", &body),
            Behaviour::Introspects(known) => {
                let token = request.split("token=").nth(1).and_then(|rest| rest.split('&').next());
                let known =
                    token.and_then(|token| known.get(token)).map_or(r#"{"active":false}"#, String::as_str);
                answer(&mut stream, 200, "", known)
            }
            Behaviour::Redirects(to) => answer(&mut stream, 302, &format!("location: {to}\r\n"), ""),
            Behaviour::Hangs | Behaviour::HangsUp => Ok(()),
            Behaviour::NeverEnds => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
                loop {
                    stream.write_all(&[b' '; 4096])?;
                }
            }
        }
    }
}

fn read(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut reader = BufReader::new(stream);
    let (mut request, mut length) = (String::new(), 0);
    loop {
        let start = request.len();
        reader.read_line(&mut request)?;
        let line = request[start..].trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    request.push_str(&String::from_utf8_lossy(&body));
    Ok(request)
}

fn answer(stream: &mut TcpStream, status: u16, headers: &str, body: &str) -> std::io::Result<()> {
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status} Status\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}
