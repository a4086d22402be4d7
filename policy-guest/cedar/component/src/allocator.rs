//! The allocator: while the policies are read, Rust's own, which reuses memory; for an evaluation, the SDK's, on pages that nothing
//! else uses.

use gateway_policy_sdk::allocator::Bump;
use std::alloc::{GlobalAlloc, Layout, System};

/// Rust's allocator until the other one is started.
pub(crate) struct Allocator(pub(crate) Bump);

#[global_allocator]
pub(crate) static ALLOCATOR: Allocator = Allocator(Bump::new());

// SAFETY: both allocators uphold the contract. `Bump` never frees, and copies a block of the other one to a new place when it grows.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds `alloc`'s contract.
        unsafe { if self.0.is_started() { self.0.alloc(layout) } else { System.alloc(layout) } }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !self.0.is_started() {
            // SAFETY: the block has `layout.size()` bytes, and comes from Rust's allocator. The snapshot shall not contain what it
            // held.
            unsafe {
                core::ptr::write_bytes(block, 0, layout.size());
                System.dealloc(block, layout);
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if self.0.is_started() {
            // SAFETY: the caller upholds `realloc`'s contract.
            return unsafe { self.0.realloc(block, layout, bytes) };
        }
        // SAFETY: the same. The new block is separate, and at least as many bytes are in both as are copied.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !moved.is_null() {
                core::ptr::copy_nonoverlapping(block, moved, layout.size().min(bytes));
                self.dealloc(block, layout);
            }
            moved
        }
    }
}
