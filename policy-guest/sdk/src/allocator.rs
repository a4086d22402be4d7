//! A bump allocator for one evaluation: memory is never freed.
//!
//! The gateway creates an instance for every evaluation and discards it with its memory, so freeing would be wasted work.
//! The newest block grows in place, so that a string that is appended to is not copied.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use core::ptr::null_mut;

const PAGE_BYTES: usize = 65_536;

unsafe extern "C" {
    /// Set by the linker: the first byte after the stack and the static data.
    static __heap_base: u8;
}

/// See the module's documentation.
pub struct Bump {
    /// Address of the first free byte; 0 before the first allocation.
    next: Cell<usize>,
    /// Address after the last byte of the linear memory.
    end: Cell<usize>,
}

// SAFETY: the target has no threads.
unsafe impl Sync for Bump {}

#[cfg(not(feature = "own-allocator"))]
#[global_allocator]
static BUMP: Bump = Bump::new();

impl Bump {
    /// Starts with the first allocation, after the stack and the static data.
    #[allow(clippy::new_without_default, reason = "constant")]
    pub const fn new() -> Self {
        Self { next: Cell::new(0), end: Cell::new(0) }
    }

    /// Whether it has allocated, or was given pages.
    pub fn is_started(&self) -> bool {
        self.next.get() != 0
    }

    /// Starts on new pages, for a policy that used another allocator before.
    pub fn start_on_new_pages(&self, pages: usize) {
        let start = core::arch::wasm32::memory_size(0) * PAGE_BYTES;
        self.end.set(start);
        if self.grow_to(start + pages * PAGE_BYTES) {
            self.next.set(start);
        }
    }

    #[cold]
    fn start(&self) {
        // Only the address of the symbol is used; nothing is read from it.
        self.next.set(&raw const __heap_base as usize);
        self.end.set(core::arch::wasm32::memory_size(0) * PAGE_BYTES);
    }

    /// Grows the memory until it reaches `end`; false if it cannot grow that far.
    #[cold]
    fn grow_to(&self, end: usize) -> bool {
        let pages = (end - self.end.get()).div_ceil(PAGE_BYTES);
        if core::arch::wasm32::memory_grow(0, pages) == usize::MAX {
            return false;
        }
        self.end.set(self.end.get() + pages * PAGE_BYTES);
        true
    }

    fn take(&self, start: usize, bytes: usize) -> *mut u8 {
        let Some(end) = start.checked_add(bytes) else { return null_mut() };
        if end > self.end.get() && !self.grow_to(end) {
            return null_mut();
        }
        self.next.set(end);
        start as *mut u8
    }
}

// SAFETY: blocks never overlap, since `next` only moves past allocated blocks; each start has the requested alignment.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.next.get() == 0 {
            self.start();
        }
        let start = self.next.get().wrapping_add(layout.align() - 1) & !(layout.align() - 1);
        self.take(start, layout.size())
    }

    unsafe fn dealloc(&self, _block: *mut u8, _layout: Layout) {}

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if bytes <= layout.size() {
            return block;
        }
        if block as usize + layout.size() == self.next.get() {
            return self.take(block as usize, bytes);
        }
        // SAFETY: the caller upholds `realloc`'s contract, and the new block is separate and has at least `layout.size()` bytes.
        unsafe {
            let moved = self.alloc(Layout::from_size_align_unchecked(bytes, layout.align()));
            if !moved.is_null() {
                core::ptr::copy_nonoverlapping(block, moved, layout.size());
            }
            moved
        }
    }
}
