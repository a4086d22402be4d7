//! The lines of the log between the threads that log and the one that writes them. A reader that hangs leaves its pipe full: only that one
//! thread waits for it.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Lines that wait at most. Further ones are dropped and counted.
const LINES_WAITING_MAX: usize = 8_192;

/// Lines that wait for the thread that writes them.
#[derive(Debug, Default)]
pub(crate) struct LogQueue {
    state: Mutex<State>,
    /// A line was added, or all are written.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<String>,
    /// The thread has a line that is not written yet.
    is_writing: bool,
    lost: LinesLost,
}

/// How many lines were lost since the start, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinesLost {
    /// They found the queue full.
    pub(crate) queue: u64,
    /// They could not be written, or not to their end.
    pub(crate) write: u64,
}

impl LogQueue {
    /// Starts the thread, which ends with the process.
    pub(crate) fn start(output: impl Write + Send + 'static) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self::default());
        let written = Arc::clone(&queue);
        thread::Builder::new().name("log".into()).spawn(move || written.write_all(output))?;
        Ok(queue)
    }

    /// Adds a line, with its line feed. It is dropped if the queue is full.
    pub(crate) fn add(&self, line: String) {
        let mut state = self.state();
        if state.waiting.len() < LINES_WAITING_MAX {
            self.push(&mut state, line);
        } else {
            state.lost.queue += 1;
        }
    }

    /// Adds lines that are not dropped: those of which a process has few, such as why it ends.
    pub(crate) fn add_always(&self, lines: String) {
        self.push(&mut self.state(), lines);
    }

    /// Waits until all lines are written, at most for `within`.
    pub(crate) fn finish(&self, within: Duration) {
        let is_busy = |state: &mut State| state.is_writing || !state.waiting.is_empty();
        let _timed_out = self.changed.wait_timeout_while(self.state(), within, is_busy);
    }

    pub(crate) fn lost(&self) -> LinesLost {
        self.state().lost
    }

    fn push(&self, state: &mut State, line: String) {
        state.waiting.push_back(line);
        // A thread that writes looks for the next line by itself.
        if !state.is_writing {
            self.changed.notify_all();
        }
    }

    fn write_all(&self, mut output: impl Write) {
        loop {
            let line = self.next();
            if output.write_all(line.as_bytes()).is_err() {
                self.state().lost.write += 1;
            }
        }
    }

    /// Waits for the next line.
    fn next(&self) -> String {
        let mut state = self.state();
        loop {
            if let Some(line) = state.waiting.pop_front() {
                state.is_writing = true;
                return line;
            }
            state.is_writing = false;
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change of it can panic midway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read as _;
    use std::time::Instant;

    fn line(n: usize) -> String {
        format!("line {n}\n")
    }

    #[test]
    fn lines_are_written_in_their_order_before_the_end() {
        let (mut reader, writer) = io::pipe().unwrap();
        let queue = LogQueue::start(writer).unwrap();
        (0..100).for_each(|n| queue.add(line(n)));
        queue.add_always("the last".into());
        queue.finish(Duration::from_secs(60));
        let expected = (0..100).map(line).collect::<String>() + "the last";
        let mut written = vec![0; expected.len()];
        reader.read_exact(&mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), expected);
        assert_eq!(queue.lost(), LinesLost::default());
    }

    #[test]
    fn reader_that_hangs_delays_only_the_writer_and_lines_without_room_are_counted() {
        let (reader, writer) = io::pipe().unwrap();
        let queue = LogQueue::start(writer).unwrap();
        let long = "x".repeat(1 << 20);
        queue.add(long);
        while !queue.state().is_writing {
            thread::yield_now();
        }
        (0..LINES_WAITING_MAX + 3).for_each(|n| queue.add(line(n)));
        queue.add_always("the last".into());
        let started = Instant::now();
        queue.finish(Duration::from_millis(10));
        assert!(started.elapsed() < Duration::from_secs(30));
        assert_eq!(queue.lost(), LinesLost { queue: 3, write: 0 });
        // All that wait can no longer be written.
        drop(reader);
        queue.finish(Duration::from_secs(60));
        assert_eq!(queue.lost(), LinesLost { queue: 3, write: LINES_WAITING_MAX as u64 + 2 });
    }

    #[test]
    fn lines_on_a_full_disk_are_counted() {
        let queue = LogQueue::start(File::create("/dev/full").unwrap()).unwrap();
        (0..3).for_each(|n| queue.add(line(n)));
        queue.finish(Duration::from_secs(60));
        assert_eq!(queue.lost(), LinesLost { queue: 0, write: 3 });
    }
}
