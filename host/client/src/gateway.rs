//! [`Gateway`]: the requests.

use crate::error::{Error, Refusal};
use crate::requests::{Abort, Approval, Filter, Payment, Rejection};
use crate::views::{Key, Operation, Page, WhoAmI};
use reqwest::header::{HeaderValue, RETRY_AFTER};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Time limit for an answer: above the gateway's own.
const ANSWER_WITHIN: Duration = Duration::from_secs(75);

/// Largest answer that is read: above the gateway's largest export.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// How long one request waits for another state. The gateway permits at most 30 seconds.
const WAIT_ONCE: Duration = Duration::from_secs(20);

/// How requests are repeated that got no answer, 429 or 503.
#[derive(Clone, Copy, Debug)]
pub struct Retries {
    /// For how long; zero for never.
    pub during: Duration,
    /// Wait before the first repeat, which doubles with each further one.
    pub first_wait: Duration,
    /// The longest wait.
    pub longest_wait: Duration,
}

impl Default for Retries {
    /// For half a minute.
    fn default() -> Self {
        Self {
            during: Duration::from_secs(30),
            first_wait: Duration::from_millis(200),
            longest_wait: Duration::from_secs(5),
        }
    }
}

/// A gateway. Cloning shares its connections.
#[derive(Clone, Debug)]
pub struct Gateway {
    pub(crate) client: reqwest::Client,
    pub(crate) base: Url,
    pub(crate) retries: Retries,
}

/// The path of a list of operations: of payments, and of custody operations.
pub(crate) const FAMILIES: [&str; 2] = ["/v1/operations", "/v1/custody/operations"];

impl Gateway {
    /// Submits a payment.
    pub async fn submit(&self, payment: &Payment) -> Result<Operation, Error> {
        self.submit_to("/v1/operations/sign", payment).await
    }

    /// Submits an operation with this body to the path of the interface, such as `/v1/custody/keys`.
    pub async fn submit_to(&self, path: &str, body: &(impl Serialize + Sync)) -> Result<Operation, Error> {
        #[derive(serde::Deserialize)]
        struct Submitted {
            operation: Operation,
        }
        Ok(self.post::<Submitted>(path, body).await?.operation)
    }

    /// The operation of this id, of whichever family.
    pub async fn find(&self, operation_id: &str) -> Result<Operation, Error> {
        let [product, custody] = FAMILIES.map(|family| format!("{family}/{operation_id}"));
        let refusal = match self.get(&product, &[]).await {
            Err(Error::Refused(refusal)) if [403, 404].contains(&refusal.status) => refusal,
            found => return found,
        };
        match self.get(&custody, &[]).await {
            // Not there, as far as the caller may look: it has to know that it may not look everywhere.
            Err(Error::Refused(other)) if other.status == 404 && refusal.status == 403 => {
                Err(Error::Refused(refusal))
            }
            found => found,
        }
    }

    /// The operation, as it is now.
    pub async fn refresh(&self, operation: &Operation) -> Result<Operation, Error> {
        self.get(operation.path(), &[]).await
    }

    /// Waits as long as the operation is in this state.
    ///
    /// # Errors
    /// [`Error::StillWaiting`] when the time is over, and others.
    pub async fn wait_while(
        &self,
        operation: &Operation,
        state: &str,
        within: Duration,
    ) -> Result<Operation, Error> {
        let deadline = Instant::now() + within;
        loop {
            let left = deadline.saturating_duration_since(Instant::now()).min(WAIT_ONCE);
            let wait = [("wait_ms", left.as_millis().to_string()), ("unless_state", state.to_owned())];
            let now: Operation = self.get(operation.path(), &wait).await?;
            if now.state != state {
                return Ok(now);
            }
            if Instant::now() >= deadline {
                return Err(Error::StillWaiting { state: now.state });
            }
        }
    }

    /// Waits until `holds` for the operation.
    ///
    /// # Errors
    /// [`Error::StillWaiting`] when the time is over, and others.
    pub async fn wait_until(
        &self,
        operation: &Operation,
        within: Duration,
        mut holds: impl FnMut(&Operation) -> bool,
    ) -> Result<Operation, Error> {
        let deadline = Instant::now() + within;
        let mut now = self.refresh(operation).await?;
        while !holds(&now) {
            let left = deadline.saturating_duration_since(Instant::now());
            let state = now.state.clone();
            now = self.wait_while(&now, &state, left).await?;
        }
        Ok(now)
    }

    /// Approves.
    pub async fn approve(&self, operation: &Operation, approval: &Approval) -> Result<Operation, Error> {
        self.act(operation, "approve", approval).await
    }

    /// Rejects.
    pub async fn reject(&self, operation: &Operation, rejection: &Rejection) -> Result<Operation, Error> {
        self.act(operation, "reject", rejection).await
    }

    /// Aborts a change of a key, or has it do without nodes that are lost.
    pub async fn abort(&self, operation: &Operation, abort: &Abort) -> Result<Operation, Error> {
        self.act(operation, "abort", abort).await
    }

    /// Cancels what the caller has submitted.
    pub async fn cancel(&self, operation: &Operation, reason: &str) -> Result<Operation, Error> {
        self.act(operation, "cancel", &json!({ "reason": reason })).await
    }

    /// Has the nodes sign, or change their shares.
    pub async fn execute(&self, operation: &Operation) -> Result<Operation, Error> {
        self.act(operation, "execute", &json!({})).await
    }

    /// Publishes the result. `scope`: `signature`, `public_key` or another one of the interface.
    pub async fn publish(
        &self,
        operation: &Operation,
        scope: &str,
        requested_at_ms: i64,
    ) -> Result<Operation, Error> {
        let body = json!({ "scope": scope, "requested_at_ms": requested_at_ms });
        self.act(operation, "publish", &body).await
    }

    /// Takes the action of this name with this body.
    pub async fn act(
        &self,
        operation: &Operation,
        action: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<Operation, Error> {
        self.post(&format!("{}/{action}", operation.path()), body).await
    }

    /// A page of payments or of custody operations, newest first.
    pub async fn operations(
        &self,
        custody: bool,
        filter: &Filter,
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<Operation>, Error> {
        let [payments, of_custody] = FAMILIES;
        let path = if custody { of_custody } else { payments };
        self.get(path, &list_query(filter, limit, cursor)).await
    }

    /// A page of keys, newest first.
    pub async fn keys(&self, filter: &Filter, limit: u32, cursor: Option<&str>) -> Result<Page<Key>, Error> {
        self.get("/v1/custody/keys", &list_query(filter, limit, cursor)).await
    }

    /// A key.
    pub async fn key(&self, key_ref: &str) -> Result<Key, Error> {
        self.get(&key_path(key_ref, "")?, &[]).await
    }

    /// Submits a change of a key, or a signature by it: `sign`, `refresh`, `reshare`, `rotate` or `recover`, with the body of the interface.
    pub async fn submit_on_key(
        &self,
        key_ref: &str,
        action: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<Operation, Error> {
        self.submit_to(&key_path(key_ref, &format!("/{action}"))?, body).await
    }

    /// Evaluates the policy without an operation. Returns the whole answer.
    pub async fn preview(&self, body: &(impl Serialize + Sync)) -> Result<Map<String, Value>, Error> {
        self.post("/v1/policy/preview", body).await
    }

    /// Who the gateway takes the caller for.
    pub async fn whoami(&self) -> Result<WhoAmI, Error> {
        self.get("/v1/caller", &[]).await
    }

    /// All pages of the operation's evidence, as texts, for `operation-gateway evidence verify`.
    pub async fn evidence(&self, operation: &Operation) -> Result<Vec<String>, Error> {
        #[derive(serde::Deserialize)]
        struct Following {
            next_after_seq: Option<u64>,
        }
        let (mut pages, mut after) = (Vec::new(), Some(0));
        while let Some(seq) = after {
            let path = format!("{}/evidence", operation.path());
            let page = self.send(Method::GET, &path, &[("after_seq", seq.to_string())], None).await?;
            let following: Following = parse(&page)?;
            after = following.next_after_seq.filter(|next| *next > seq);
            pages.push(String::from_utf8(page).map_err(|error| Error::Malformed(error.to_string()))?);
        }
        Ok(pages)
    }

    /// Asks for JSON.
    pub async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &[(&'static str, String)],
    ) -> Result<T, Error> {
        parse(&self.send(Method::GET, path, query, None).await?)
    }

    /// Sends JSON.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        let body = serde_json::to_vec(body).map_err(|error| Error::Unusable(error.to_string()))?;
        parse(&self.send(Method::POST, path, &[], Some(&body)).await?)
    }

    /// The body of a good answer. Repeats the request as [`Retries`] say.
    async fn send(
        &self,
        method: Method,
        path: &str,
        query: &[(&'static str, String)],
        body: Option<&[u8]>,
    ) -> Result<Vec<u8>, Error> {
        let (began, mut wait) = (Instant::now(), self.retries.first_wait);
        loop {
            let answer = self.request(method.clone(), path, query)?;
            let answer = match body {
                Some(body) => answer.header("content-type", "application/json").body(body.to_vec()),
                None => answer,
            };
            let answer = answer.timeout(ANSWER_WITHIN).send().await;
            let (error, asked_wait) = match answer {
                Ok(answer) if answer.status() == StatusCode::OK => match read(answer).await {
                    Ok(bytes) => return Ok(bytes),
                    Err(error) => (error, None),
                },
                Ok(answer) => {
                    let may_repeat = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
                    let repeats = may_repeat.contains(&answer.status());
                    let asked =
                        answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
                    let error = refusal(answer).await;
                    if !repeats {
                        return Err(error);
                    }
                    (error, asked.map(Duration::from_secs))
                }
                Err(error) => (no_answer(error), None),
            };
            let Retries { first_wait, longest_wait, .. } = self.retries;
            let pause = asked_wait.map_or(wait, |asked| asked.max(first_wait)).min(longest_wait);
            let is_final = matches!(error, Error::Malformed(_));
            if is_final || began.elapsed() + pause > self.retries.during {
                return Err(error);
            }
            sleep(pause).await;
            wait = (wait * 2).min(longest_wait);
        }
    }

    /// A request that is sent once, whose answer is a stream of events after the event `last`.
    pub(crate) async fn open_events(
        &self,
        path: &str,
        query: &[(&'static str, String)],
        last: Option<&str>,
    ) -> Result<Response, Error> {
        let request = self.request(Method::GET, path, query)?;
        let request = match last {
            Some(id) => request.header("last-event-id", header_value(id)?),
            None => request,
        };
        let answer = request.send().await.map_err(no_answer)?;
        if answer.status() == StatusCode::OK { Ok(answer) } else { Err(refusal(answer).await) }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&'static str, String)],
    ) -> Result<reqwest::RequestBuilder, Error> {
        let wrong = || Error::Unusable(format!("`{path}` is not a path of the gateway"));
        let below =
            path.strip_prefix('/').filter(|below| !below.starts_with(['/', '\\'])).ok_or_else(wrong)?;
        let mut url = Url::parse(&format!("{}{below}", self.base)).map_err(|_| wrong())?;
        // Another address would get the token: `..` leads out of the path of the gateway.
        if url.origin() != self.base.origin() || !url.path().starts_with(self.base.path()) {
            return Err(wrong());
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(self.client.request(method, url))
    }
}

fn list_query(filter: &Filter, limit: u32, cursor: Option<&str>) -> Vec<(&'static str, String)> {
    let mut query = filter.pairs();
    query.push(("limit", limit.to_string()));
    query.extend(cursor.map(|cursor| ("cursor", cursor.to_owned())));
    query
}

/// The path of a key, whose name may have any character.
fn key_path(key_ref: &str, action: &str) -> Result<String, Error> {
    let mut url =
        Url::parse("http://gateway/v1/custody/keys").map_err(|error| Error::Unusable(error.to_string()))?;
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.push(key_ref);
    }
    // `.` and `..` are not pushed; the gateway has no such keys.
    if url.path() == "/v1/custody/keys" {
        return Err(Error::Unusable(format!("`{key_ref}` cannot be the name of a key")));
    }
    Ok(format!("{}{action}", url.path()))
}

fn header_value(id: &str) -> Result<HeaderValue, Error> {
    HeaderValue::from_str(id).map_err(|_| Error::Unusable("this cannot be the id of an event".to_owned()))
}

fn no_answer(error: reqwest::Error) -> Error {
    Error::NoAnswer(error.without_url())
}

async fn read(mut answer: Response) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(no_answer)? {
        if bytes.len().saturating_add(chunk.len()) > ANSWER_BYTES_MAX {
            return Err(Error::Malformed(format!("it has more than {ANSWER_BYTES_MAX} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// The error of an answer; one that does not come from a gateway has only its status.
async fn refusal(answer: Response) -> Error {
    let status = answer.status().as_u16();
    let body = read(answer).await.unwrap_or_default();
    match serde_json::from_slice::<Refusal>(&body) {
        Ok(refusal) => Error::Refused(Box::new(Refusal { status, ..refusal })),
        Err(_) => Error::Malformed(format!("its status is {status}, without the gateway's error")),
    }
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Malformed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_keys_are_one_segment_of_the_path() {
        for (name, path) in [
            ("treasury-1", "/v1/custody/keys/treasury-1/sign"),
            ("a/b c?d#e", "/v1/custody/keys/a%2Fb%20c%3Fd%23e/sign"),
            ("100%", "/v1/custody/keys/100%25/sign"),
        ] {
            assert_eq!(key_path(name, "/sign").unwrap(), path);
        }
        for wrong in [".", ".."] {
            assert!(key_path(wrong, "/sign").is_err(), "{wrong}");
        }
    }

    #[test]
    fn requests_go_to_the_gateway_only() {
        let gateway = Gateway::builder("https://gateway.example").unwrap().build().unwrap();
        for wrong in
            ["https://elsewhere.example/v1", "//elsewhere.example/v1", "/\\elsewhere.example/v1", "", "v1"]
        {
            assert!(gateway.request(Method::GET, wrong, &[]).is_err(), "{wrong}");
        }
        assert!(gateway.request(Method::GET, "/v1/operations", &[]).is_ok());
    }

    #[test]
    fn requests_go_to_the_path_of_the_gateway() {
        for (base, expected) in [
            ("https://gateway.example", "https://gateway.example/v1/operations?limit=1"),
            ("https://gateway.example/", "https://gateway.example/v1/operations?limit=1"),
            ("https://example.com/one/gateway", "https://example.com/one/gateway/v1/operations?limit=1"),
            ("https://example.com/one/gateway/", "https://example.com/one/gateway/v1/operations?limit=1"),
        ] {
            let gateway = Gateway::builder(base).unwrap().build().unwrap();
            let query = [("limit", "1".to_owned())];
            let request = gateway.request(Method::GET, "/v1/operations", &query).unwrap().build().unwrap();
            assert_eq!(request.url().as_str(), expected);
        }
        let gateway = Gateway::builder("https://example.com/gateway").unwrap().build().unwrap();
        for wrong in ["/../v1", "/v1/../../v1", "/%2e%2e/v1", "/v1/.%2E/../v1", "//v1"] {
            assert!(gateway.request(Method::GET, wrong, &[]).is_err(), "{wrong}");
        }
    }
}
