//! Deadlines, on a clock that the tests advance.

use super::*;
use std::future::poll_fn;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{advance, pause};

const LIMITS: Limits = Limits {
    connections_max: 1,
    connections_per_address_max: 1,
    handshake_within: Duration::from_secs(1),
    header_within: Duration::from_secs(10),
    idle_within: Duration::from_secs(60),
    write_within: Duration::from_secs(30),
    header_bytes_max: 8192,
    headers_max: 64,
};

fn timed() -> (DeadlineStream<DuplexStream>, DuplexStream, Arc<Activity>) {
    let (near, far) = duplex(8);
    let activity = Activity::new(Arc::default());
    (DeadlineStream::new(near, Arc::clone(&activity), &LIMITS), far, activity)
}

/// The result of a read that does not wait; `None` if it would wait.
async fn read(stream: &mut DeadlineStream<DuplexStream>) -> Option<io::Result<usize>> {
    let mut bytes = [0; 8];
    poll_fn(|ctx| {
        let mut buf = ReadBuf::new(&mut bytes);
        let polled = Pin::new(&mut *stream).poll_read(ctx, &mut buf);
        Poll::Ready(match polled {
            Poll::Pending => None,
            Poll::Ready(read) => Some(read.map(|()| buf.filled().len())),
        })
    })
    .await
}

/// Advances the clock, and two milliseconds more: timers are rounded up to a millisecond.
async fn pass(seconds: u64) {
    advance(Duration::from_secs(seconds) + Duration::from_millis(2)).await;
}

#[track_caller]
fn assert_cut(read: Option<io::Result<usize>>, reason: &str) {
    let error = read.expect("the read is still pending").unwrap_err();
    assert_eq!((error.kind(), error.to_string().as_str()), (io::ErrorKind::TimedOut, reason));
}

#[tokio::test]
async fn header_deadline_does_not_restart_with_each_byte() {
    pause();
    let (mut stream, mut far, _activity) = timed();
    for _ in 0..9 {
        assert!(read(&mut stream).await.is_none());
        far.write_all(b"x").await.unwrap();
        assert_eq!(read(&mut stream).await.unwrap().unwrap(), 1);
        pass(1).await;
    }
    assert!(read(&mut stream).await.is_none());
    pass(1).await;
    assert_cut(read(&mut stream).await, "header");
}

#[tokio::test]
async fn idle_deadline_is_replaced_by_the_header_deadline_at_the_first_byte() {
    pause();
    let (mut stream, mut far, activity) = timed();
    activity.begin_handling();
    pass(3600).await;
    assert!(read(&mut stream).await.is_none(), "no deadline while a request is handled");
    activity.responding();
    activity.sent_all();
    assert!(read(&mut stream).await.is_none());
    pass(59).await;
    assert!(read(&mut stream).await.is_none());
    far.write_all(b"G").await.unwrap();
    assert_eq!(read(&mut stream).await.unwrap().unwrap(), 1);
    pass(9).await;
    assert!(read(&mut stream).await.is_none());
    pass(1).await;
    assert_cut(read(&mut stream).await, "header");

    let (mut stream, _far, activity) = timed();
    activity.begin_handling();
    activity.responding();
    activity.sent_all();
    assert!(read(&mut stream).await.is_none());
    pass(60).await;
    assert_cut(read(&mut stream).await, "idle");
}

/// hyper does not read for the next request until bytes arrive.
#[tokio::test]
async fn idle_deadline_starts_at_the_last_response_without_a_read() {
    pause();
    let (mut stream, mut far, activity) = timed();
    for _ in 0..2 {
        activity.begin_handling();
        activity.responding();
        stream.write_all(b"answer").await.unwrap();
        stream.flush().await.unwrap();
        far.read_exact(&mut [0; 6]).await.unwrap();
        pass(59).await;
    }
    assert!(read(&mut stream).await.is_none());
    pass(1).await;
    assert_cut(read(&mut stream).await, "idle");
}

#[tokio::test]
async fn each_request_of_a_connection_has_its_own_header_deadline() {
    pause();
    let (mut stream, mut far, activity) = timed();
    for _ in 0..20 {
        far.write_all(b"GET").await.unwrap();
        assert_eq!(read(&mut stream).await.unwrap().unwrap(), 3);
        pass(9).await;
        assert!(read(&mut stream).await.is_none());
        activity.begin_handling();
        activity.responding();
        activity.sent_all();
    }
}

#[tokio::test]
async fn response_that_is_not_read_in_time_is_cut_off() {
    pause();
    let (mut stream, mut far, _activity) = timed();
    stream.write_all(&[0; 8]).await.unwrap();
    stream.flush().await.unwrap();
    let writing = tokio::spawn(async move { stream.write_all(&[0; 64]).await });
    // A byte every four seconds: 8 of them by the deadline.
    let mut n_taken = 0;
    while !writing.is_finished() && n_taken < 64 {
        far.read_u8().await.unwrap();
        n_taken += 1;
        pass(4).await;
        tokio::task::yield_now().await;
    }
    let error = writing.await.unwrap().unwrap_err();
    // One more when the reader is polled first.
    assert!(error.kind() == io::ErrorKind::TimedOut && (8..=9).contains(&n_taken), "{error} {n_taken}");
}

#[tokio::test]
async fn write_deadline_ends_with_the_response() {
    pause();
    let (mut stream, mut far, _activity) = timed();
    for _ in 0..4 {
        let writing = async {
            stream.write_all(&[0; 16]).await.unwrap();
            stream.flush().await.unwrap();
        };
        let taking = async {
            let mut taken = [0; 16];
            far.read_exact(&mut taken).await.unwrap();
        };
        tokio::join!(writing, taking);
        pass(29).await;
    }
}
