//! Use cases, ports and the drive loop: the only place that sequences effects.
