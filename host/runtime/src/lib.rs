//! The fleet of runtime nodes as the engine sees it.
