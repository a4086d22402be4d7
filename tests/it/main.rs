//! Tests at two borders: the router in process, and the real process. (The third, the pure core, tests itself.)

mod canaries;
mod coverage;
mod crash;
mod flows;
mod harness;
mod hostile;
mod race;
mod routes;
mod start;
