//! From the start of the process to its first answer, and its memory when idle. The release binary, its data in place.

use crate::{Measured, median, world};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const N_STARTS: usize = 9;

pub(crate) fn measure() -> Measured<()> {
    let folder = tempfile::tempdir()?;
    let binary = world::root().join("target/release/operation-gateway");
    let (mut starts, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..N_STARTS {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let started = Instant::now();
        let mut child = Command::new(&binary)
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
