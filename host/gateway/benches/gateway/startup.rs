//! The time from the start of the release binary to its first answer, its memory when idle, and the cost of reading the policy
//! bundle again.

use crate::{Measured, median, world};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const N_STARTS: usize = 9;
const N_READINGS: usize = 201;

pub(crate) fn measure() -> Measured<()> {
    let folder = tempfile::tempdir()?;
    let (mut starts, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..N_STARTS {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let started = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_operation-gateway"))
            .args(
                world::settings(folder.path())
                    .iter()
                    .map(|(name, value)| format!("--{}={value}", name.replace('_', "-"))),
            )
            .arg(format!("--bind={address}"))
            .stderr(Stdio::null())
            .spawn()?;
        let answered = first_answer(address, started);
        std::thread::sleep(Duration::from_millis(300));
        let resident = resident_mib(&child);
        stop(&mut child)?;
        starts.push(answered?.as_secs_f64());
        memory.push(resident?);
    }
    println!(
        "start to first answer, {N_STARTS} starts (medians); the bundle is verified and compiled at each"
    );
    println!("  first answer     {:8.3} s", median(&mut starts));
    println!("  resident, idle   {:8.1} MiB", median(&mut memory));
    Ok(())
}

fn first_answer(address: SocketAddr, started: Instant) -> Measured<Duration> {
    while started.elapsed() < Duration::from_secs(20) {
        if let Ok(mut stream) = TcpStream::connect(address) {
            stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: gateway\r\nconnection: close\r\n\r\n")?;
            let mut text = String::new();
            stream.read_to_string(&mut text)?;
            if text.starts_with("HTTP/1.1 200") {
                return Ok(started.elapsed());
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err("the gateway did not answer within 20 s".into())
}

fn resident_mib(child: &Child) -> Measured<f64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}

fn stop(child: &mut Child) -> Measured<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Reading the bundle again: every `policy_watch_ms` with nothing changed, and on SIGHUP.
pub(crate) async fn measure_reading() -> Measured<()> {
    let folder = tempfile::tempdir()?;
    let gateway = world::open(folder.path()).await?;
    println!("reading the default bundle, {N_READINGS} times (medians)");
    for (name, again) in [("nothing changed", false), ("SIGHUP", true)] {
        let mut times = Vec::new();
        for _ in 0..N_READINGS {
            let started = Instant::now();
            if again {
                gateway.policies.reload().await;
            } else {
                gateway.policies.reload_if_changed().await;
            }
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        println!("  {name:<16} {:8.3} ms", median(&mut times));
    }
    Ok(())
}
